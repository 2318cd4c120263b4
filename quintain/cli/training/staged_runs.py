"""Runs in object stores (`--model-dir=s3://...`): commands work on local copies.

A helper process (`storage.run_uploader`) copies the run to this machine, and uploads it while it is
trained. Commands get the directory of the copy; `name` gives the URL again, for people. TensorFlow
reaches only `gs://` of these; there, several processes may train without copies.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from quintain import errors
from quintain.files import fetched_files, file_io, file_paths

F = TypeVar("F", bound=Callable[..., Any])

_NEVER_STAGED: Final = ("", "file", "ram")
_names: Final[dict[str, str]] = {}


def is_staged(model_dir: str | None) -> bool:
    """True if a run lies where it is worked on through a copy."""
    return bool(model_dir) and file_paths.scheme(model_dir or "") not in _NEVER_STAGED


def give_name(model_dir: str, called: str) -> None:
    """Says what a directory is called."""
    _names[model_dir] = called


def name(model_dir: str) -> str:
    """Returns what a directory is called, such as the URL of which it is a copy; else itself."""
    return _names.get(model_dir, model_dir)


def trains(command: F) -> F:
    """Lets a command whose `model_dir` is in an object store train there."""

    @functools.wraps(command)
    def run(*args: Any, **flags: Any) -> Any:
        model_dir = flags.get("model_dir")
        is_elsewhere = flags.get("dry_run") or flags.get("cluster_workers") is not None
        if is_elsewhere or not is_staged(model_dir):
            return command(*args, **flags)
        several = _find_several(flags)
        if several is not None:
            _check_several(str(model_dir), several)
            return command(*args, **flags)
        with training(str(model_dir)) as copy:
            return command(*args, **{**flags, "model_dir": copy})

    return run  # type: ignore[return-value] # It takes and gives the same.


def _find_several(flags: dict[str, Any]) -> str | None:
    """Returns what says that several processes work on a run; None if nothing does."""
    if flags.get("local_workers") is not None:
        return f"--local-workers={flags['local_workers']}"
    if str(flags.get("mode", "")).startswith("continuous"):
        return f"--mode={flags['mode']}"
    if len(json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})) > 0:
        return "a cluster in TF_CONFIG"
    return None


def _check_several(url: str, several: str) -> None:
    """Raises unless several processes can work on a run, which only TensorFlow lets them."""
    if file_paths.scheme(url) != "gs":
        raise errors.ConfigError(
            f"--model-dir: got {url!r} together with {several}: several processes would each have "
            "a copy of their own. Train in one process, or give a directory that all of them see, "
            "or one of gs://."
        )
    from quintain.storage import run_mirror  # Most commands need nothing of it.

    if file_io.exists(file_paths.join(url, run_mirror.FILE_NAME)):
        raise errors.ConfigError(
            f"--model-dir: got {url!r} together with {several}: the run was trained by one process "
            f"through a copy ({run_mirror.FILE_NAME}), and has to be gone on with so. Give several "
            "processes a directory of their own from the start."
        )


@contextlib.contextmanager
def reading(url: str) -> Iterator[str]:
    """Gives the directory of a copy of a run, which is deleted afterwards.

    Raises:
        ConfigError: If nothing is there, or it can't be read.
    """
    with tempfile.TemporaryDirectory(prefix="quintain-run-") as scratch:
        directory = pathlib.Path(scratch, _find_basename(url))
        directory.mkdir()
        with _start("read", url, directory) as helper:
            found = _hear(helper, url)
        if not found.get("files"):
            raise errors.ConfigError(f"--model-dir: got {url!r}, where nothing is.")
        give_name(str(directory), url)
        yield str(directory)


@contextlib.contextmanager
def training(url: str) -> Iterator[str]:
    """Gives the directory of a copy of a run, which is uploaded while and after it is written.

    Raises:
        ConfigError: If nothing can be written there; that is said before anything is begun.
        OutputError: If it could not be uploaded at last; the copy stays then.
    """
    # The name is always the same, because a run remembers the directories that it reads.
    place = fetched_files.private_directory("runs") / hashlib.sha256(url.encode()).hexdigest()[:32]
    directory = place / _find_basename(url)
    with _locked(place, url):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        give_name(str(directory), url)
        with _start("train", url, directory) as helper:
            _hear(helper, url)
            try:
                yield str(directory)
            finally:
                _finish(
                    helper,
                    url,
                    advice=f"The copy is in {directory}. Move it elsewhere before the command is "
                    "given again, which begins with what was uploaded.",
                )
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def writing(url: str, *, overwrite: bool) -> Iterator[str]:
    """Gives a directory, which is uploaded if the block does not raise; of this machine, itself.

    Args:
        url: Where it goes.
        overwrite: Whether what is there is replaced.

    Raises:
        ConfigError: If something is there, or nothing can be written.
        OutputError: If it could not be uploaded.
    """
    if not is_staged(url):
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="quintain-export-") as scratch:
        directory = pathlib.Path(scratch, _find_basename(url))
        directory.mkdir()
        with _start("train", url, directory) as helper:
            if _hear(helper, url).get("files") and not overwrite:
                raise errors.ConfigError(
                    f"--output: got {url!r}, where something is; --overwrite replaces it."
                )
            shutil.rmtree(directory)
            yield str(directory)
            _finish(helper, url)


def _find_basename(url: str) -> str:
    return file_paths.basename(url.rstrip("/")) or "run"


def _start(what: str, url: str, directory: pathlib.Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "quintain.storage.run_uploader", what, url, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Signals of a terminal are for the training.
        start_new_session=True,
    )


def _hear(helper: "subprocess.Popen[str]", url: str) -> dict[str, Any]:
    """Returns what a helper says; raises what it could not do."""
    assert helper.stdout is not None, "its output is a pipe"
    line = helper.stdout.readline()
    if not line:
        raise errors.OutputError(f"{url}: the process that copies the run has ended unexpectedly.")
    said: dict[str, Any] = json.loads(line)
    if "error" not in said:
        return said
    kind = errors.ConfigError if said.get("is_bad_input") else errors.OutputError
    raise kind(f"--model-dir: {said['error']}")


def _finish(helper: "subprocess.Popen[str]", url: str, advice: str = "") -> None:
    """Waits until all is uploaded.

    Raises:
        OutputError: If it could not be; with an advice.
    """
    assert helper.stdin is not None, "its input is a pipe"
    with contextlib.suppress(BrokenPipeError):
        helper.stdin.write("finish\n")
        helper.stdin.flush()
    try:
        _hear(helper, url)
    except errors.QuintainError as error:
        raise errors.OutputError(f"{error} It could not be uploaded. {advice}".rstrip()) from error


@contextlib.contextmanager
def _locked(place: pathlib.Path, url: str) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    with (place / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.ConfigError(
                f"--model-dir: got {url!r}, which another process of this machine trains now."
            ) from None
        yield
