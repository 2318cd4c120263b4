"""Checks of a task's return values, with the line that returned them."""

import collections
from typing import Any

import keras
import tensorflow as tf

from quintain import errors
from quintain.core.steps import model_metrics


def check_model(task: Any, model: Any) -> None:
    """Checks what `build_model` returned.

    Raises:
        ConfigError: If it is no Keras model, or one whose constructor was not called.
    """
    if not isinstance(model, keras.Model):
        raise _wrong_result(task.build_model, model, "a keras.Model")
    try:
        _ = model.built
    except AttributeError as error:
        raise errors.ConfigError(
            f"{type(model).__name__}.__init__ does not call `super().__init__()`; let it do so "
            f"first.\n  {_locate(type(model).__init__)}"
        ) from error


def check_dataset(build_fn: Any, dataset: Any) -> None:
    """Checks what `build_inputs`, or another function that builds data, returned.

    Raises:
        ConfigError: If it is nothing.
    """
    if dataset is None:
        raise _wrong_result(build_fn, dataset, "a tf.data.Dataset of batches")


def to_scalar(task: Any, loss: Any) -> Any:
    """Returns what `build_losses` returned as a scalar; that may be a tensor of one element.

    Raises:
        ConfigError: If it is nothing, or known to have another number of elements.
    """
    if loss is None:
        raise _wrong_result(task.build_losses, loss, "a scalar tensor")
    shape = tf.convert_to_tensor(loss).shape
    if shape.rank in (0, None):
        return loss
    if shape.num_elements() == 1:
        return tf.reshape(loss, [])
    given = f"a tensor of shape {shape}"
    advice = "a scalar; take its mean, such as by tf.reduce_mean"
    raise _wrong_result(task.build_losses, given, advice)


def build_metrics(
    task: Any, model: keras.Model | None, *, training: bool
) -> list[keras.metrics.Metric]:
    """Returns the metrics of a task, and those that its model was compiled with or has made.

    Args:
        task: The task.
        model: Its model; None for one that it shares with others.
        training: Whether the metrics are for training.

    Raises:
        ConfigError: If two have one name, under which only one of them would be logged.
    """
    metrics = list(tf.nest.flatten(task.build_metrics(training=training)))
    if model is not None:
        metrics += model_metrics.own_metrics(model)
    counts = collections.Counter(metric.name for metric in metrics)
    [(name, count)] = counts.most_common(1) or [("", 0)]
    if count > 1:
        raise errors.ConfigError(
            f"{_name(task.build_metrics)} gives {count} metrics of the name {name!r}, those of the "
            "model included; give each a name of its own.\n"
            f"  {_locate(task.build_metrics)}"
        )
    return metrics


def check_trainable(task: Any, model: keras.Model) -> None:
    """Checks that there is something to train.

    Raises:
        ConfigError: If the model has no trainable variables.
    """
    if not model.trainable_variables:
        raise errors.ConfigError(
            f"{_name(task.build_model)} built a model without trainable variables. Add a layer "
            "that has some, or set `trainable` of one that is frozen.\n"
            f"  {_locate(task.build_model)}"
        )


def _wrong_result(method: Any, given: Any, expected: str) -> errors.ConfigError:
    shown = given if isinstance(given, str) else repr(given)
    return errors.ConfigError(
        f"{_name(method)} returned {shown}, expected {expected}.\n  {_locate(method)}"
    )


def _locate(method: Any) -> str:
    from quintain.process import user_errors  # noqa: PLC0415 - only errors do

    return str(user_errors.locate(method))


def _name(method: Any) -> str:
    owner = getattr(method, "__self__", None)
    return f"{type(owner).__name__}.{method.__name__}" if owner is not None else str(method)
