"""Loading the model of a run, with its task, from the run's directory."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

import quintain.registered_experiments  # noqa: F401  Registers those that a run may be of.
from quintain import errors
from quintain.checkpoints import checkpoint_fit, checkpoints, saved_graph
from quintain.core import base_task, task_factory
from quintain.core.multitask import configs
from quintain.core.progressive import staged_policy
from quintain.files import literal_paths
from quintain.kernels import modes
from quintain.optimization import ema, optimizer_wrapper
from quintain.run import experiment_parser
from quintain.settings import config_definitions as cfg

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A model with the weights of a checkpoint, and what it was trained as."""

    task: base_task.Task
    """The task, bound to the files that the run kept."""

    model: keras.Model
    """The model."""

    checkpoint: str
    """Prefix of the checkpoint's files."""

    kernels: modes.KernelMode = modes.KernelMode.AUTO
    """The run's `runtime.kernels`."""


def load(
    model_dir: str,
    kinds: Sequence[type[cfg.TaskConfig]] | None = None,
    *,
    checkpoint: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> TrainedRun:
    """Builds the task and the model of a run, with its weights.

    Args:
        model_dir: The run's directory, with `params.yaml`, vocabulary and checkpoints.
        kinds: Configs of the tasks that are wanted; None for any. Of a run of several tasks the
            first is taken.
        checkpoint: Checkpoint to use, such as `runs/local/ckpt-800`. None takes the newest that is
            whole.
        overrides: Changes of the task's config.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If `params.yaml` is missing or describes none of the tasks.
    """
    path = checkpoint or choose_checkpoint(model_dir)
    params = experiment_parser.load_params(model_dir)
    config = _find(params, model_dir, kinds, path)
    task_cls = task_factory.find_task_cls(config)
    config = task_cls.bind_to_run(config, model_dir).replace(**(overrides or {}))
    task = task_factory.get_task(config, logging_dir=model_dir)
    model = task.build_model()
    restore_weights(model, task, params, path)
    return TrainedRun(task, model, path, params.runtime.kernel_mode)


def restore_weights(
    model: keras.Model, task: base_task.Task, params: cfg.ExperimentConfig, path: str
) -> None:
    """Restores the weights that a run evaluates: their average, where it keeps one.

    Raises:
        CheckpointError: If the checkpoint does not exist, or does not fit.
    """
    checkpoint_fit.restore_model(model, path)
    if params.trainer.optimizer_config.ema is None:
        return
    optimizer: Any = task.create_optimizer(params.trainer.optimizer_config, params.runtime)
    average = optimizer_wrapper.find_wrapper(optimizer, ema.ExponentialMovingAverage)
    if average is None:
        return
    average.shadow_copy(model)
    try:
        status = tf.train.Checkpoint(optimizer=optimizer).read(literal_paths.checkpoint(path))
        status.expect_partial().assert_existing_objects_matched()
    except (tf.errors.OpError, ValueError, AssertionError) as error:
        raise errors.CheckpointError(
            f"The checkpoint {path!r} holds no average of the weights that fits "
            f"`trainer.optimizer_config.ema`: {saved_graph.describe_error(error)}"
        ) from error
    if not average.is_swapped:
        average.swap_weights()


def choose_checkpoint(model_dir: str) -> str:
    """Returns the newest checkpoint of a run that is whole.

    Raises:
        CheckpointError: If there is none.
    """
    for path in reversed(checkpoints.list_checkpoints(model_dir)):
        damage = checkpoints.find_damage(path)
        if damage is None:
            return path
        _logger.warning("The checkpoint %s is damaged (%s); taking the one before.", path, damage)
    raise errors.CheckpointError(
        f"model_dir: got {model_dir!r}, which holds no usable checkpoint. Train a model first, for "
        f"example with `quintain train --experiment=translation/local --model-dir={model_dir}`, or "
        "give the directory of a trained one."
    )


def find_task_config(model_dir: str, *, checkpoint: str | None = None) -> Any:
    """Returns the config of a run's task, the first of several.

    Args:
        model_dir: The run's directory.
        checkpoint: Checkpoint of a run in stages, whose stage counts. None takes the newest.

    Raises:
        CheckpointError: If there is no checkpoint.
        ConfigError: If `params.yaml` is missing.
    """
    path = checkpoint or choose_checkpoint(model_dir)
    return _find(experiment_parser.load_params(model_dir), model_dir, None, path)


def _find(
    params: cfg.ExperimentConfig,
    model_dir: str,
    kinds: Sequence[type[cfg.TaskConfig]] | None,
    path: str,
) -> Any:
    for config in _list_task_configs(params, path):
        if not isinstance(config, configs.MultiTaskConfig) and (
            kinds is None or isinstance(config, tuple(kinds))
        ):
            return config
    wanted = " or ".join(kind.__name__.removesuffix("Config") for kind in kinds or ())
    raise errors.ConfigError(
        f"model_dir: got {model_dir!r}, which holds a run of {type(params.task).__name__}, "
        f"expected one of {wanted or 'a single task'}."
    )


def _list_task_configs(params: cfg.ExperimentConfig, path: str) -> Iterator[Any]:
    yield staged_policy.find_task_config(params, path)
    if isinstance(params, configs.MultiTaskExperimentConfig):
        for routine in params.task.task_routines:
            yield routine.task_config
