"""Modes of a run, and checks before anything is built."""

import contextlib
import enum
from collections.abc import Iterator

import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoints, run_lock
from quintain.distribute import distribution
from quintain.orbit import cluster
from quintain.process import start_up
from quintain.settings import config_definitions as cfg


class Mode(enum.StrEnum):
    """Modes of a run."""

    TRAIN = "train"
    EVAL = "eval"
    TRAIN_AND_EVAL = "train_and_eval"
    TRAIN_AND_POST_EVAL = "train_and_post_eval"
    TRAIN_AND_VALIDATE = "train_and_validate"
    CONTINUOUS_EVAL = "continuous_eval"
    CONTINUOUS_TRAIN_AND_EVAL = "continuous_train_and_eval"

    @property
    def is_training(self) -> bool:
        """True if the weights change."""
        return self not in (Mode.EVAL, Mode.CONTINUOUS_EVAL)

    @property
    def has_evaluations(self) -> bool:
        """True if the training is evaluated on the way."""
        return self in (
            Mode.TRAIN_AND_EVAL,
            Mode.TRAIN_AND_VALIDATE,
            Mode.CONTINUOUS_TRAIN_AND_EVAL,
        )

    @property
    def has_post_eval(self) -> bool:
        """True if an evaluation follows the training."""
        return self is Mode.TRAIN_AND_POST_EVAL


def parse_mode(name: str) -> Mode:
    """Returns the mode of this name.

    Raises:
        ConfigError: If there is none.
    """
    try:
        return Mode(name)
    except ValueError as error:
        raise errors.ConfigError(
            f"mode: got {name!r}, expected one of {', '.join(Mode)}.{errors.suggest(name, Mode)}"
        ) from error


def check_run(params: cfg.ExperimentConfig, mode: Mode, model_dir: str) -> None:
    """Checks what can be known before anything is built.

    Raises:
        ConfigError: If there are no steps to train, or settings do not go together.
        CheckpointError: If mode `eval` finds no checkpoint.
    """
    params.validate()
    problems: list[str] = []
    if mode.is_training and cfg.find_privacy(params) is not None:
        from quintain.core.privacy import privacy_accounting  # noqa: PLC0415 - few trainings do

        problems += privacy_accounting.check(params)
    if mode.is_training and params.runtime.elastic:
        from quintain.distribute import elastic_steps  # noqa: PLC0415 - few trainings are

        problems += elastic_steps.find_problems(params)
    if mode.is_training and params.trainer.train_steps < 1:
        problems.append(
            f"trainer.train_steps: got {params.trainer.train_steps}, expected at least 1 in mode "
            f"{mode.value!r}."
        )
    metric = params.trainer.early_stopping.metric
    if metric and mode.is_training and not mode.has_evaluations:
        problems.append(
            f"trainer.early_stopping.metric: got {metric!r}, but mode {mode.value!r} does not "
            "evaluate on the way; use train_and_eval."
        )
    if problems:
        raise errors.ConfigError("\n".join(problems))
    if mode is Mode.EVAL and not checkpoints.list_checkpoints(model_dir):
        raise errors.CheckpointError(
            f"model_dir: got {model_dir!r}, which holds no checkpoint to evaluate. Train there "
            "first, or give the directory of a trained run."
        )


@contextlib.contextmanager
def run_scope(
    params: cfg.ExperimentConfig, mode: str, model_dir: str | None, strategy: tf.distribute.Strategy
) -> Iterator[None]:
    """Keeps other trainings out of a directory, for the chief, and sets the run's precision.

    Raises:
        ConfigError: On entering it, if another run is there; if there is no such mode.
    """
    start_up.turn_onednn_cache_off()
    is_writer = parse_mode(mode).is_training and cluster.is_chief(strategy)
    with run_lock.hold(model_dir, is_needed=is_writer), distribution.precision(params.runtime):
        yield
