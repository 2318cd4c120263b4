"""The files of a run that people read: `params.yaml`, gin bindings, and whose directory it is."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.config import gin_io, provenance, yaml_io
from quintain.core import checkpoints, config_change
from quintain.core import config_definitions as cfg

PARAMS_FILE: Final = "params.yaml"
GIN_FILE: Final = "config.gin"
EXPERIMENT_KEY: Final = "experiment"
IMPORTS_KEY: Final = "imports"

logger = logging.getLogger(__name__)


def params_path(model_dir: str) -> str:
    """Returns the path of a run's `params.yaml`."""
    return os.path.join(model_dir, PARAMS_FILE)


def serialize_config(
    params: cfg.ExperimentConfig,
    model_dir: str,
    *,
    experiment: str | None = None,
    imports: Sequence[str] = (),
) -> None:
    """Writes `params.yaml`, which is enough by itself to run the experiment again.

    A file that says something else is kept as `params.yaml.1`, `.2` and so on, and the differences
    go to the log.

    Args:
        params: The experiment.
        model_dir: Directory of the run; created if need be.
        experiment: Name of the registered experiment.
        imports: Modules to import before the experiment is looked up.

    Raises:
        ConfigError: If `model_dir` is empty.
    """
    if not model_dir:
        raise errors.ConfigError("model_dir: missing; expected a directory for params.yaml.")
    header: dict[str, Any] = {}
    if experiment:
        header[EXPERIMENT_KEY] = experiment
    if imports:
        header[IMPORTS_KEY] = list(imports)
    text = yaml_io.dump({**header, **params.as_dict()})
    tf.io.gfile.makedirs(model_dir)
    path = params_path(model_dir)
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path) as file:
            if file.read() == text:
                return
        _keep_former(path, params)
    scratch = f"{path}.incomplete"
    with tf.io.gfile.GFile(scratch, "w") as file:
        file.write(text)
    tf.io.gfile.rename(scratch, path, overwrite=True)


def save_gin_config(filename_suffix: str, model_dir: str) -> None:
    """Writes what gin bound, and to what, to `operative_config.SUFFIX.gin`.

    Args:
        filename_suffix: Usually the mode of the run.
        model_dir: Directory of the run; created if need be.
    """
    tf.io.gfile.makedirs(model_dir)
    path = os.path.join(model_dir, f"operative_config.{filename_suffix}.gin")
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(gin_io.operative_config())


def save_gin_bindings(model_dir: str) -> None:
    """Writes the bindings of the run to `config.gin`, which `--gin_file` can read again.

    A file that says something else is kept as `config.gin.1`, `.2` and so on.
    """
    path, text, former = os.path.join(model_dir, GIN_FILE), gin_io.bindings(), _read_gin(model_dir)
    if text == former:
        return
    if former:
        tf.io.gfile.rename(path, _next_former_path(path))
    if text:
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(text)


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
        writes: Whether the run will write there.
        allow_config_change: Whether a run that has checkpoints may go on with other settings.

    Raises:
        ConfigError: If the directory belongs to another experiment, or to a run with other
            settings; if it is a file, or can't be written to.
    """
    if not model_dir:
        raise errors.ConfigError("model_dir: missing; say where the run is kept: --model_dir=DIR.")
    if tf.io.gfile.exists(model_dir) and not tf.io.gfile.isdir(model_dir):
        raise errors.ConfigError(f"model_dir: got {model_dir!r}, which is a file, not a directory.")
    owner = _read_header(model_dir).get(EXPERIMENT_KEY)
    if owner is not None and owner != experiment:
        raise errors.ConfigError(
            f"model_dir: {model_dir!r} belongs to the experiment {owner!r}, not to {experiment!r}. "
            "Give another directory, or leave --experiment out to go on with the run that is there."
        )
    if not writes:
        return
    _check_writable(model_dir)
    former = _read_header(model_dir)
    if former and checkpoints.list_checkpoints(model_dir):
        config_change.check_config_change(
            former,
            params,
            model_dir,
            is_allowed=allow_config_change,
            kept_as=os.path.basename(_next_former_path(params_path(model_dir))),
        )
        config_change.check_gin_change(
            _read_gin(model_dir),
            gin_io.bindings(),
            os.path.join(model_dir, GIN_FILE),
            is_allowed=allow_config_change,
        )


def read_seed(model_dir: str) -> int | None:
    """Returns the seed of the run in `model_dir`, or None if there is no run yet."""
    runtime = _read_header(model_dir).get("runtime") or {}
    return runtime.get("seed")


@dataclasses.dataclass
class Attempt:
    """Something that may still fail and would then leave nothing behind."""

    has_succeeded: bool = False

    def succeed(self) -> None:
        """Keeps what was written."""
        self.has_succeeded = True


@contextlib.contextmanager
def undo_on_error(model_dir: str) -> Iterator[Attempt]:
    """Removes what was created in `model_dir` inside, if it fails before `Attempt.succeed`."""
    existed = tf.io.gfile.isdir(model_dir)
    before = set(tf.io.gfile.listdir(model_dir)) if existed else set()
    attempt = Attempt()
    try:
        yield attempt
    finally:
        if not attempt.has_succeeded and tf.io.gfile.isdir(model_dir):
            _remove_entries(model_dir, set(tf.io.gfile.listdir(model_dir)) - before)
            if not existed:
                tf.io.gfile.rmtree(model_dir)


def _remove_entries(directory: str, names: set[str]) -> None:
    for name in names:
        path = os.path.join(directory, name)
        if tf.io.gfile.isdir(path):
            tf.io.gfile.rmtree(path)
        else:
            tf.io.gfile.remove(path)


def _read_header(model_dir: str) -> dict[str, Any]:
    path = params_path(model_dir)
    return yaml_io.load_file(path) if tf.io.gfile.exists(path) else {}


def _read_gin(model_dir: str) -> str:
    """Returns the gin bindings of the run in `model_dir`; empty if it has none."""
    path = os.path.join(model_dir, GIN_FILE)
    if not tf.io.gfile.exists(path):
        return ""
    with tf.io.gfile.GFile(path) as file:
        text: str = file.read()
    return text


def _check_writable(model_dir: str) -> None:
    """Creates and removes a file in `model_dir`, or in its nearest existing parent."""
    directory = os.path.abspath(model_dir) if "://" not in model_dir else model_dir
    while not tf.io.gfile.exists(directory):
        directory = os.path.dirname(directory)
    probe = os.path.join(directory, f".writable-{os.getpid()}")
    try:
        with tf.io.gfile.GFile(probe, "w") as file:
            file.write("")
        tf.io.gfile.remove(probe)
    except (tf.errors.OpError, OSError) as error:
        raise errors.ConfigError(
            f"model_dir: got {model_dir!r}, but {directory!r} can't be written to: "
            f"{getattr(error, 'message', error)}"
        ) from error


def _next_former_path(path: str) -> str:
    """Returns the first of `path.1`, `path.2`, ... that there is not."""
    number = 1
    while tf.io.gfile.exists(f"{path}.{number}"):
        number += 1
    return f"{path}.{number}"


def _keep_former(path: str, params: cfg.ExperimentConfig) -> None:
    """Moves a `params.yaml` of other content aside and says what is different."""
    former = {
        key: value
        for key, value in yaml_io.load_file(path).items()
        if key not in (EXPERIMENT_KEY, IMPORTS_KEY)
    }
    changes = provenance.diff_dicts(former, params.as_dict())
    kept_as = _next_former_path(path)
    tf.io.gfile.rename(path, kept_as)
    lines = [f"  {name}: {old!r} -> {new!r}" for name, old, new in changes]
    logger.warning(
        "The settings differ from those this run was started with (now in %s):\n%s",
        kept_as,
        "\n".join(lines),
    )
