"""Names and steps of Keras 2 in users' code, which Keras 3 lacks or means otherwise.

Its guide had `loss = self.compiled_loss(y, y_pred, regularization_losses=self.losses)` and
`self.compiled_metrics.update_state(y, y_pred)`. Keras 3 has both names, but its `compiled_loss`
adds nothing to the mean of the loss, and its `compiled_metrics` updates that mean with the labels.
"""

import functools
import importlib
from typing import Any, Final

import keras
import tensorflow as tf

from quintain.core.steps import model_metrics

_LOSSES: Final = (
    "kl_divergence",
    "log_cosh",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
)


def complete_tf_keras() -> None:
    """Adds functions of losses to `tf.keras.losses` and `tf.keras.metrics`, if they are not there.

    Example:
        >>> complete_tf_keras()
        >>> tf.keras.losses.mean_squared_error is keras.losses.mean_squared_error
        True
    """
    for part in ("losses", "metrics"):
        source = getattr(keras, part)
        # Two modules: that of the attribute, and that of `import tensorflow.keras.losses`.
        imported = importlib.import_module(f"tensorflow.keras.{part}")
        for target in (getattr(tf.keras, part), imported):  # noqa: TID251 - what users write
            for name in _LOSSES:
                if not hasattr(target, name):
                    setattr(target, name, getattr(source, name))


def restore_steps(model: keras.Model) -> None:
    """Gives a compiled model whose class has steps of its own the two as they were."""
    cls = type(model)
    steps = ((cls.train_step, keras.Model.train_step), (cls.test_step, keras.Model.test_step))
    if any(own is not of_keras for own, of_keras in steps):
        if cls.compiled_loss is keras.Model.compiled_loss:
            model.compiled_loss = functools.partial(_compute_loss, model)
        model._compiled_metrics_update_state = functools.partial(_update_metrics, model)


def _compute_loss(
    model: keras.Model,
    y: Any,
    y_pred: Any,
    sample_weight: Any = None,
    regularization_losses: Any = None,
) -> tf.Tensor:
    loss: tf.Tensor = model._compile_loss(y, y_pred, sample_weight)
    if regularization_losses:
        loss += tf.add_n([tf.cast(each, loss.dtype) for each in regularization_losses])
    size = tf.shape(tf.nest.flatten(y_pred)[0])[0]
    model._loss_tracker.update_state(loss, sample_weight=size)
    return loss


def _update_metrics(model: keras.Model, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
    metrics = model_metrics.compiled_metrics(model)
    if metrics is not None:
        metrics.update_state(y, y_pred, sample_weight=sample_weight)
