"""The metrics that a Keras model brings with it, and reading the results of metrics."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf


def own_metrics(model: keras.Model) -> list[keras.metrics.Metric]:
    """Returns the metrics of a model and its layers, without those it was compiled with.

    `model.metrics` of a compiled Keras 3 model starts with a mean of the loss, which only
    `Model.fit` updates, and what `compiled_parts` lists.
    """
    others = (getattr(model, "_loss_tracker", None), *compiled_parts(model))
    return [metric for metric in model.metrics if all(metric is not other for other in others)]


def compiled_parts(model: keras.Model) -> list[keras.metrics.Metric]:
    """Returns the metrics that compiling made: one for all compiled metrics, one for each loss.

    Losses of several outputs update a mean each, whoever computes them. Training and evaluation
    share these objects with each other: whoever uses them resets them first.
    """
    loss = compiled_loss(model)
    parts = (compiled_metrics(model), *(() if loss is None else loss.metrics))
    return [part for part in parts if any(part is metric for metric in model.metrics)]


def compiled_metrics(model: keras.Model) -> keras.metrics.Metric | None:
    """Returns the one object that holds the metrics a model was compiled with, if there are any.

    A model whose own `metrics` leaves them out does not update them, and has none.
    """
    compiled = model._compile_metrics if model.compiled else None
    return compiled if any(metric is compiled for metric in model.metrics) else None


def compiled_loss(model: keras.Model) -> Any | None:
    """Returns the function of labels and outputs that a model was compiled with, if there is one.

    `model.compiled_loss`, which the reference asks, is always true in Keras 3.
    """
    return model._compile_loss if model.compiled else None


def lacks_variables(model: keras.Model) -> bool:
    """True if a model was compiled with metrics or losses that only a batch gives variables."""
    compiled = (compiled_metrics(model), compiled_loss(model))
    return any(part is not None and not part.built for part in compiled)


def build_compiled(
    model: keras.Model, update_fn: Callable[[Any, Any, Any], None], labels: Any, outputs: Any
) -> None:
    """Makes the variables of the metrics and losses that a model was compiled with."""
    metrics, loss = compiled_metrics(model), compiled_loss(model)
    if metrics is not None and not metrics.built:
        update_fn(_Builder(metrics), labels, outputs)
    if loss is not None and not loss.built:
        flat = tf.nest.flatten(labels)
        if len(flat) == len(tf.nest.flatten(outputs)):
            labels = tf.nest.pack_sequence_as(outputs, flat)
        loss.build(labels, outputs)


class _Builder:
    """Takes the place of compiled metrics, and builds instead of updating them."""

    def __init__(self, metrics: keras.metrics.Metric) -> None:
        self._metrics = metrics

    def update_state(self, labels: Any, outputs: Any, sample_weight: Any = None) -> None:
        del sample_weight
        self._metrics.build(labels, outputs)


def read(metrics: Iterable[keras.metrics.Metric]) -> dict[str, Any]:
    """Returns the results of metrics by name, as they are now.

    Args:
        metrics: Metrics. One with several results gives each by its own name, and none before its
            first update.
    """
    results: dict[str, Any] = {}
    for metric in metrics:
        if not getattr(metric, "built", True):
            continue
        result = metric.result()
        results.update(result if isinstance(result, dict) else {metric.name: result})
    return {name: _read_variables(result) for name, result in results.items()}


def _read_variables(result: Any) -> Any:
    """Returns a result with the values of variables, which the next update would change."""
    return tf.nest.map_structure(
        lambda part: (
            tf.convert_to_tensor(part) if isinstance(part, keras.Variable | tf.Variable) else part
        ),
        result,
    )


def reset(metrics: Iterable[keras.metrics.Metric]) -> None:
    """Sets metrics back to their initial state."""
    for metric in metrics:
        metric.reset_state()
