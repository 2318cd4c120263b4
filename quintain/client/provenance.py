"""Finds out where an experiment comes from, while the command that creates it runs.

It must neither fail nor take long: what can't be found out is left empty.
"""

import contextlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final

from quintain.records.config import provenance

MOST_DIFF_BYTES: Final = 200_000
"""Bytes of the changes to the code that are kept."""

_GIT_SECS: Final = 10.0
_MOST_WORD_CHARS: Final = 4000
_DISTRIBUTION: Final = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*)(-.*)?\.(dist|egg)-info")
_SECRET: Final = re.compile(
    r"(?<![a-z])(token|secret|passw(or)?d|credentials?|(api|access|private)[-_.]?key)(?![a-z])"
    r"|(^|=)environment\b",
    re.IGNORECASE,
)
_USER_OF_URL: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_HIDDEN: Final = "***"


def collect(model_dir: pathlib.Path | None = None) -> provenance.Provenance:
    """Returns where an experiment comes from that this process creates.

    Args:
        model_dir: Directory with the user's code; without one, git is asked about the working
            directory.
    """
    working_dir = ""
    with contextlib.suppress(OSError):  # It may have been deleted.
        working_dir = os.getcwd()
    return provenance.Provenance(
        time=time.time(),
        command=hide_secrets(sys.argv),
        working_dir=working_dir,
        python=platform.python_version(),
        platform=platform.platform(),
        host=platform.node(),
        processor=_find_processor(),
        num_cores=_count_cores(),
        memory_bytes=_find_memory_bytes(),
        packages=find_packages(sys.path),
        git=find_git_state(model_dir or pathlib.Path(working_dir or "/")),
    )


def hide_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """Returns a command line without the values of what looks like a secret.

    Example:
        >>> hide_secrets(["run", "--set", "environment.HF_TOKEN=abc", "--token", "abc"])
        ('run', '--set', 'environment.HF_TOKEN=***', '--token', '***')
    """
    shown: list[str] = []
    is_secret = False
    for word in words:
        name, separator, _ = _split(word)
        names_secret = _SECRET.search(name) is not None
        if is_secret:
            shown.append(_HIDDEN)
        elif separator and names_secret:
            shown.append(f"{name}={_HIDDEN}")
        else:
            shown.append(_USER_OF_URL.sub(_HIDDEN, word)[:_MOST_WORD_CHARS])
        is_secret = not is_secret and names_secret and not separator and word.startswith("-")
    return tuple(shown)


def _split(word: str) -> tuple[str, str, str]:
    """Splits `NAME=VALUE`, or `--flag=NAME=VALUE` after the second name."""
    name, separator, value = word.partition("=")
    if name.startswith("-") and "=" in value:
        inner, separator, value = value.partition("=")
        name = f"{name}={inner}"
    return name, separator, value


def find_packages(places: Iterable[str]) -> dict[str, str]:
    """Returns the versions of the packages that are installed in directories, by name.

    They are read from the names of what pip leaves there: reading all of its files takes a second.
    """
    found: dict[str, str] = {}
    for place in places:
        with contextlib.suppress(OSError):
            for name in os.listdir(place or "."):
                # The first one on the path is the one that is imported.
                if match := _DISTRIBUTION.fullmatch(name):
                    found.setdefault(match["name"].replace("_", "-"), match["version"])
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def find_git_state(directory: pathlib.Path) -> provenance.GitState | None:
    """Returns what git knows of the code in a directory; None if it has no commit of it."""
    listed = _run_git(directory, "status", "--porcelain=v2", "--branch", "--no-renames")
    if listed is None:
        return None
    lines = listed.decode("utf-8", "replace").splitlines()
    headers = dict(
        line.removeprefix("# branch.").partition(" ")[::2] for line in lines if line[:1] == "#"
    )
    commit, branch = headers.get("oid", "(initial)"), headers.get("head", "")
    if commit == "(initial)":
        return None
    files = [line for line in lines if not line.startswith("#")]
    num_untracked = sum(line.startswith("?") for line in files)
    is_dirty = len(files) > num_untracked
    arguments = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv")
    diff = (_run_git(directory, *arguments) or b"") if is_dirty else b""
    return provenance.GitState(
        commit=commit,
        branch="" if branch == "(detached)" else branch,
        is_dirty=is_dirty,
        num_untracked=num_untracked,
        diff=diff[:MOST_DIFF_BYTES].decode("utf-8", "replace"),
        is_diff_cut=len(diff) > MOST_DIFF_BYTES,
    )


def _run_git(directory: pathlib.Path, *arguments: str) -> bytes | None:
    """Returns the beginning of what git answers, or None if it can't."""
    command = ["git", "-C", str(directory), "-c", "core.fsmonitor=false", *arguments]
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        ) as process:
            return _read_answer(process)
    except OSError:
        return None


def _read_answer(process: subprocess.Popen[bytes]) -> bytes | None:
    # It also ends a git that waits for a disk that does not answer, or whose answer is not wanted.
    timer = threading.Timer(_GIT_SECS, process.kill)
    timer.daemon = True
    timer.start()
    try:
        assert process.stdout is not None, "it was asked for"
        answer = process.stdout.read(MOST_DIFF_BYTES + 1)
        if len(answer) > MOST_DIFF_BYTES:
            process.kill()
            return answer
        return answer if process.wait() == 0 else None
    finally:
        timer.cancel()


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _find_processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor() or platform.machine()


def _find_memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
