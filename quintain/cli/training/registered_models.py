"""Files of registered models: receipts of paths, and versions checked against theirs."""

import contextlib
import functools
import pathlib
import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import click

from quintain import errors
from quintain.cli import connect, options, tensorflow_import
from quintain.cli.training import checkpoint_export, staged_runs
from quintain.client import calls as calls_lib
from quintain.files import disk_errors
from quintain.records import checkpoint_manifest
from quintain.records.rows import codec, registered_model
from quintain.server.runs import run_index, run_reader

F = TypeVar("F", bound=Callable[..., Any])

_EXPORT_FILE: Final = "assets.extra/quintain.json"
_RECORDS: Final = re.compile(
    r"checkpoint|run\.lock|environment\.json|params\.yaml\.\d+|.*\.jsonl|.*\.tmp"
)
"""Files of a run that change without changing its model."""

_OF_CHECKPOINT: Final = re.compile(r"(?P<name>.*-\d+)\.(index|data-\d{5}-of-\d{5}|receipt\.json)")


model_options = options.combine(
    click.option("--model-dir", metavar="DIR", help="Directory of a trained run or of an export."),
    click.option(
        "--model",
        "reference",
        metavar="NAME@ALIAS",
        help="Registered model in its place, by an alias or a version (`quintain model list`).",
    ),
    click.option(
        "--checkpoint", metavar="PATH", help="Checkpoint to use; the newest one by default."
    ),
)
"""Adds the options that say which trained model a command that `reads` wraps uses."""


def reads(command: F) -> F:
    """Gives a command the directory of a registered model, or of a run in an object store."""

    @functools.wraps(command)
    def run(*args: Any, reference: str | None, **flags: Any) -> Any:
        if (reference is None) == (flags["model_dir"] is None):
            raise click.UsageError("--model-dir, --model: expected one of them.")
        if reference is not None and flags["checkpoint"] is not None:
            raise click.UsageError("--checkpoint: got together with --model, which has its own.")
        with contextlib.ExitStack() as opened:
            if reference is not None:
                path, checkpoint = opened.enter_context(_opened(reference))
                flags |= {"model_dir": path, "checkpoint": checkpoint}
            elif staged_runs.is_staged(flags["model_dir"]):
                copy = opened.enter_context(staged_runs.reading(flags["model_dir"]))
                flags |= {"model_dir": copy}
            try:
                return command(*args, **flags)
            except errors.QuintainError as error:
                # A copy is this command's alone, and nobody can look at it.
                name = staged_runs.name(flags["model_dir"])
                error.args = (str(error).replace(flags["model_dir"], name), *error.args[1:])
                raise

    return run  # type: ignore[return-value] # It takes the same flags.


def read_receipt(path: pathlib.Path) -> registered_model.Receipt:
    """Reads the files of an export, of a run or of a model's file, for its receipt.

    Raises:
        ConfigError: If there is none.
    """
    path = path.expanduser().absolute()
    if not path.exists():
        raise errors.ConfigError(
            f"PATH: got {str(path)!r}, expected the directory of an export or a run, or the file "
            "of a model, on this machine."
        )
    if run_index.is_run(path):
        return _read_run(path)
    if path.suffix != ".keras":
        path = _find_model(path)
    export = path / _EXPORT_FILE
    return registered_model.Receipt(
        path=str(path),
        machine=socket.gethostname(),
        checkpoint="",
        files=_hash_path(path, ""),
        config=disk_errors.read_json(export) if export.is_file() else {},
        metrics={},
        origin={},
    )


def _read_run(path: pathlib.Path) -> registered_model.Receipt:
    """Reads the receipt of a run by its newest checkpoint."""
    found = run_index.FoundRun("", path.name, path)
    details = run_reader.RunReader().describe(found)
    names = [one.name for one in details.checkpoints if "/" not in one.name]
    if not names:
        raise errors.ConfigError(f"PATH: got {str(path)!r}, a run without a checkpoint.")
    tensorflow_import.import_quietly()
    from quintain.checkpoints import checkpoint_state

    marks = checkpoint_state.read_data_marks(str(path / names[-1]))
    return registered_model.Receipt(
        path=str(path),
        machine=socket.gethostname(),
        checkpoint=names[-1],
        files=_hash_path(path, names[-1]),
        config=details.params,
        metrics=codec.to_plain(details.run.metrics),
        origin={**details.environment, **({"data": marks} if marks else {})},
    )


def _find_model(directory: pathlib.Path) -> pathlib.Path:
    """Returns the only SavedModel or `.keras` file in a directory.

    Raises:
        ConfigError: If there is none, or several.
    """
    models = checkpoint_export.find_models(directory)
    if len(models) != 1:
        listed = f"there are {', '.join(map(str, models))}" if models else "there is none"
        raise errors.ConfigError(
            f"{directory}: expected a run of `quintain train`, or one SavedModel or .keras file; "
            f"{listed}. Name one."
        )
    return models[0]


def _hash_path(path: pathlib.Path, checkpoint: str) -> dict[str, str]:
    """Returns the SHA-256 of all files; of a run, of those that its model needs."""
    if path.is_file():
        return {path.name: checkpoint_manifest.hash_file(path)}
    names = [name for name in checkpoint_manifest.list_files(path) if not name.endswith("/")]
    if checkpoint:
        names = [name for name in names if _is_of_model(name, checkpoint)]
    return {name: checkpoint_manifest.hash_file(path / name) for name in names}


def _is_of_model(name: str, checkpoint: str) -> bool:
    if (match := _OF_CHECKPOINT.fullmatch(name)) is not None:
        return match["name"] == checkpoint
    is_record = _RECORDS.fullmatch(pathlib.PurePath(name).name) is not None
    return not is_record and name.partition("/")[0] not in run_index.PARTS_OF_RUNS


@contextlib.contextmanager
def _opened(reference: str) -> Iterator[tuple[str, str | None]]:
    """Gives the path of a version and the checkpoint there, after its receipt was checked.

    Raises:
        NotFoundError: If there is no such version, or what it points at is gone.
        CheckpointError: If what it points at has changed.
    """
    name, mark = registered_model.parse_reference(reference)
    with tempfile.TemporaryDirectory(prefix="quintain-") as scratch:
        with connect.open_calls() as calls:
            version = calls.get_model(name).find(mark)
            path, code = pathlib.Path(version.path), pathlib.Path(scratch, "code")
            if version.trial_id is not None:
                path = pathlib.Path(scratch, "checkpoint")
                _fetch(calls, version, path, code)
        _check(version, path)
        click.echo(
            f"Model {version.reference}, SHA-256 {version.sha256[:16]}: unchanged since it was "
            "registered.",
            err=True,
        )
        chosen, checkpoint = str(path), None
        if version.trial_id is not None:
            chosen = _choose_model(version, path, code)
        elif version.checkpoint:
            checkpoint = str(path / version.checkpoint)
        staged_runs.give_name(chosen, version.reference)
        yield chosen, checkpoint


def _fetch(
    calls: calls_lib.Calls,
    version: registered_model.ModelVersion,
    target: pathlib.Path,
    code: pathlib.Path,
) -> None:
    """Copies a checkpoint, and the code of its experiment, if that has some."""
    try:
        calls.fetch_checkpoint(version.checkpoint, target)
    except (errors.CheckpointError, errors.DataError, errors.NotFoundError) as error:
        raise errors.CheckpointError(
            f"{version.reference}: what it points at is gone or damaged: {error}"
        ) from error
    with contextlib.suppress(errors.NotFoundError):  # Most registered experiments have none.
        calls.fetch_model_dir(int(version.experiment_id or 0), code)


def _check(version: registered_model.ModelVersion, path: pathlib.Path) -> None:
    """Checks that the files of a version are what they were when it was registered."""
    if not path.exists():
        here = socket.gethostname()
        elsewhere = f" It was registered on {version.machine}, and this is {here}."
        raise errors.NotFoundError(
            f"{version.reference}: {path}, which it points at, is gone."
            f"{elsewhere if version.machine not in ('', here) else ''} Put it back, or register it "
            "anew (`quintain model register`)."
        )
    root = path.parent if path.is_file() else path
    found = {
        name: checkpoint_manifest.hash_file(root / name)
        for name in version.files
        if (root / name).is_file()
    }
    change = registered_model.find_change(version.files, found)
    if change is not None:
        what = path if version.trial_id is None else f"checkpoint {version.checkpoint}"
        raise errors.CheckpointError(
            f"{version.reference}: {what} is not what was registered: {change}. Nothing is "
            "served; put it back, or register it as a new version."
        )


def _choose_model(
    version: registered_model.ModelVersion, source: pathlib.Path, code: pathlib.Path
) -> str:
    """Returns what can be served of a checkpoint of a trial."""
    if checkpoint_export.find_models(source):
        return str(_find_model(source))
    if not checkpoint_export.is_of_task(source):
        raise errors.CheckpointError(
            f"{version.reference}: there is no model in checkpoint {version.checkpoint}, whose "
            "trial saves weights only. Register an export of it instead."
        )
    if code.is_dir():
        from quintain.trials import task_trial

        task_trial.import_experiments(code)
    return str(source)
