"""Loading the weights of a run into a model, for use outside of training."""

from typing import Any

import keras
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit, saved_graph
from quintain.core import base_task
from quintain.files import literal_paths
from quintain.optimization import ema, optimizer_wrapper
from quintain.settings import config_definitions as cfg


def restore_trained(
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
