"""Readable files of a run: `params.yaml`, gin bindings, and ownership of its directory."""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

from quintain import errors
from quintain.checkpoints import checkpoints, evaluation_log, receipts, recovery_state
from quintain.config import gin_io, run_header, yaml_io
from quintain.core import user_modules
from quintain.files import file_io, file_paths, whole_files
from quintain.run import history
from quintain.settings import config_definitions as cfg

PARAMS_FILE: Final = "params.yaml"
GIN_FILE: Final = "config.gin"
WRITTEN_FILES: Final = (
    PARAMS_FILE,
    GIN_FILE,
    evaluation_log.FILE_NAME,
    history.FILE_NAME,
    recovery_state.FILE_NAME,
    receipts.CHAIN_FILE,
)
"""Files of a run that are replaced as a whole."""

_FIRST_LINE: Final = "# The settings of a run, written by `quintain train`.\n"
_LAST_LINE: Final = "# End of the settings.\n"

logger = logging.getLogger(__name__)


def params_path(model_dir: str) -> str:
    """Returns the path of a run's `params.yaml`."""
    return file_paths.join(model_dir, PARAMS_FILE)


def serialize_config(
    params: cfg.ExperimentConfig,
    model_dir: str,
    *,
    experiment: str | None = None,
    imports: Sequence[str] = (),
    is_bound: bool = True,
) -> None:
    """Writes `params.yaml`, which is enough by itself to run the experiment again.

    A file that says something else is kept as `params.yaml.1`, `.2` and so on, and the differences
    go to the log.

    Args:
        params: The experiment.
        model_dir: Directory of the run; created if need be.
        experiment: Name of the registered experiment.
        imports: Modules to import before the experiment is looked up.
        is_bound: Whether the file that is there is of a run that has started, so that other
            settings deserve a warning.

    Raises:
        ConfigError: If `model_dir` is empty.
        DamagedFileError: If the file that is there is cut off.
        OutputError: If the file can't be written.
    """
    if not model_dir:
        raise errors.ConfigError("model_dir: missing; expected a directory for params.yaml.")
    header: dict[str, Any] = {}
    if experiment:
        header[run_header.EXPERIMENT_KEY] = experiment
    if imports:
        header[run_header.IMPORTS_KEY] = list(imports)
    if directories := user_modules.find_directories(imports):
        header[run_header.DIRECTORIES_KEY] = directories
    text = yaml_io.dump({**header, **params.as_dict()})
    path = params_path(model_dir)
    if file_io.exists(path):
        former, new = _read_header(model_dir), yaml_io.load_text(text)
        if former == new:
            return
        if run_header.without_header(former) != run_header.without_header(new):
            _keep_former(path, params, is_bound=is_bound)
    whole_files.write(path, f"{_FIRST_LINE}{text}{_LAST_LINE}")


def save_gin_config(filename_suffix: str, model_dir: str) -> None:
    """Writes what gin bound, and to what, to `operative_config.SUFFIX.gin`.

    Args:
        filename_suffix: Usually the mode of the run.
        model_dir: Directory of the run; created if need be.
    """
    path = file_paths.join(model_dir, f"operative_config.{filename_suffix}.gin")
    whole_files.write(path, gin_io.operative_config())


def save_gin_bindings(model_dir: str) -> None:
    """Writes the bindings of the run to `config.gin`, which `--gin-file` can read again.

    A file that says something else is kept as `config.gin.1`, `.2` and so on.
    """
    path = file_paths.join(model_dir, GIN_FILE)
    text, former = gin_io.bindings(), _read_gin(model_dir)
    if text == former:
        return
    if former:
        file_io.rename(path, _next_former_path(path))
    if text:
        whole_files.write(path, text)


def check_model_dir(
    params: cfg.ExperimentConfig,
    model_dir: str,
    *,
    experiment: str,
    writes: bool,
    allow_config_change: bool = False,
) -> None:
    """Checks that a directory may be used for a run, and changes nothing in it.

    Args:
        params: The experiment.
        model_dir: Directory of the run; need not exist.
        experiment: Name of the registered experiment.
        writes: Whether the run will write settings and checkpoints there. An evaluation writes its
            results only.
        allow_config_change: Whether a run that has checkpoints may go on with other settings.

    Raises:
        ConfigError: If the directory belongs to another experiment, or to a run with other
            settings; if it is a file, or can't be written to.
    """
    if not model_dir:
        raise errors.ConfigError("model_dir: missing; say where the run is kept: --model-dir=DIR.")
    file_io.check_writable(model_dir, "model_dir")
    if file_io.exists(model_dir) and not file_io.isdir(model_dir):
        raise errors.ConfigError(f"model_dir: got {model_dir!r}, which is a file, not a directory.")
    owner = _read_header(model_dir).get(run_header.EXPERIMENT_KEY)
    if owner is not None and owner != experiment and has_started(model_dir):
        raise errors.ConfigError(
            f"model_dir: {model_dir!r} belongs to the experiment {owner!r}, not to {experiment!r}. "
            "Give another directory, or leave --experiment out to go on with the run that is there."
        )
    _check_writable(
        model_dir,
        "" if writes else " An evaluation keeps its results there; evaluate a copy of it.",
    )
    if not writes:
        return
    former = _read_header(model_dir)
    if former and checkpoints.list_checkpoints(model_dir):
        from quintain.run import config_change  # noqa: PLC0415 - only runs that go on do

        config_change.check_config_change(
            former,
            params,
            model_dir,
            is_allowed=allow_config_change,
            kept_as=file_paths.basename(_next_former_path(params_path(model_dir))),
        )
        config_change.check_gin_change(
            _read_gin(model_dir),
            gin_io.bindings(),
            file_paths.join(model_dir, GIN_FILE),
            is_allowed=allow_config_change,
        )


def read_seed(model_dir: str) -> int | None:
    """Returns the seed of the run in `model_dir`, or None if there is no run yet."""
    runtime = _read_header(model_dir).get("runtime") or {}
    return runtime.get("seed")


def has_started(model_dir: str) -> bool:
    """Returns whether a run in `model_dir` has left anything that its settings are bound to."""
    record = file_paths.join(model_dir, history.FILE_NAME)
    return bool(checkpoints.list_checkpoints(model_dir)) or file_io.exists(record)


@contextlib.contextmanager
def undo_on_error(model_dir: str) -> Iterator[None]:
    """Removes what this process writes inside, if that fails before a run has started.

    Settings and a vocabulary that were refused must not bind the next start. Files that others
    write meanwhile, and those of a run that was there before, stay.
    """
    with whole_files.new_paths_recorded() as created:
        try:
            yield
        except BaseException:
            if not has_started(model_dir):
                _remove(created)
            raise


def _remove(created: Sequence[str]) -> None:
    """Removes files, and directories that are empty then; says so where that can't be done."""
    for path in filter(file_io.exists, reversed(created)):
        try:
            if not file_io.isdir(path):
                file_io.remove(path)
            elif not file_io.listdir(path):
                file_io.rmtree(path)
        except whole_files.ERRORS as error:
            logger.warning("%s: can't be removed: %s", path, whole_files.describe(error, path))


def check_whole(path: str) -> None:
    """Checks that a `params.yaml` is not cut off; one without our first line may be anything.

    Raises:
        DamagedFileError: If it has our first line, but not our last one.
    """
    if not file_io.exists(path):
        return
    data = file_io.read_bytes(path)
    if data.startswith(_FIRST_LINE.encode()) and not data.endswith(_LAST_LINE.encode()):
        raise errors.DamagedFileError(
            f"{path}: is cut off: it does not end with the line {_LAST_LINE.strip()!r}. Put back a "
            "copy; or complete it, or delete it and give --experiment and your settings again."
        )


def _read_header(model_dir: str) -> dict[str, Any]:
    path = params_path(model_dir)
    check_whole(path)
    return yaml_io.load_file(path) if file_io.exists(path) else {}


def _read_gin(model_dir: str) -> str:
    """Returns the gin bindings of the run in `model_dir`; empty if it has none."""
    path = file_paths.join(model_dir, GIN_FILE)
    return file_io.read_text(path) if file_io.exists(path) else ""


def _check_writable(model_dir: str, advice: str) -> None:
    """Creates and removes a file in `model_dir`, or in its nearest existing parent."""
    directory = file_paths.absolute(model_dir)
    try:
        while not file_io.exists(directory) and file_paths.dirname(directory) != directory:
            directory = file_paths.dirname(directory)
        probe = file_paths.join(directory, f".writable-{os.getpid()}")
        with file_io.open(probe, "w"):
            pass
        file_io.remove(probe)
    except OSError as error:
        raise errors.ConfigError(
            f"model_dir: got {model_dir!r}, but {directory!r} can't be written to: "
            f"{error.strerror or error}.{advice}"
        ) from error


def _next_former_path(path: str) -> str:
    """Returns the first of `path.1`, `path.2`, ... that there is not."""
    number = 1
    while file_io.exists(f"{path}.{number}"):
        number += 1
    return f"{path}.{number}"


def _keep_former(path: str, params: cfg.ExperimentConfig, *, is_bound: bool) -> None:
    """Moves a `params.yaml` of other content aside and says what is different."""
    from quintain.config import provenance  # noqa: PLC0415 - few runs change their settings

    former = run_header.without_header(yaml_io.load_file(path))
    changes = provenance.diff_dicts(former, params.as_dict())
    kept_as = _next_former_path(path)
    file_io.rename(path, kept_as)
    lines = [f"  {name}: {old!r} -> {new!r}" for name, old, new in changes]
    logger.log(
        logging.WARNING if is_bound else logging.INFO,
        "The settings differ from those this run was started with (now in %s):\n%s",
        kept_as,
        "\n".join(lines),
    )
