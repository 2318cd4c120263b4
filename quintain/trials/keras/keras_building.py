"""Creation of the variables of a compiled Keras model, before its steps are traced.

A step that creates variables is traced twice. Keras avoids that: it traces the model, the metrics
and the loss once each, in graphs that nobody uses. A model made of Keras' own parts needs none of
it: it knows its outputs, and its loss and metrics are built from shapes and types.
"""

import types
from collections.abc import Iterator
from typing import Any, Final

import keras
from keras.src import metrics as keras_metrics
from keras.src import tree
from keras.src.models import functional

_OWN: Final = "keras.src."


def create_variables(model: keras.Model, batch: Any) -> None:
    """Creates all variables of a model, those of its loss, metrics and optimizer included.

    Args:
        model: A compiled model.
        batch: Shapes and types of a batch, each a `keras.KerasTensor`: `(inputs, labels)`, with
            weights if there are any.

    Raises:
        Exception: Whatever the code of the model raises that can't take the batch.
    """
    inputs, labels, _ = keras.utils.unpack_x_y_sample_weight(batch)  # Nothing depends on weights.
    if not _build_untraced(model, inputs, labels):
        model._symbolic_build(data_batch=batch)


def _build_untraced(model: keras.Model, inputs: Any, labels: Any) -> bool:
    """Builds what Keras would, in its order, unless it would call code that is not its own."""
    loss, metrics = model._compile_loss, model._compile_metrics
    if loss is None or loss.built or (metrics is not None and metrics.built):
        return False
    if not (all(map(_is_own, _list_parts(model))) and all(map(_is_counting, _list_metrics(model)))):
        return False
    known = model._functional if isinstance(model, keras.Sequential) else model
    is_single = isinstance(inputs, keras.KerasTensor) and isinstance(labels, keras.KerasTensor)
    if not isinstance(known, functional.Functional) or not is_single:
        return False
    if [tensor.shape for tensor in known.inputs] != [inputs.shape]:
        return False  # They would be traced.
    outputs = known.compute_output_spec(inputs)
    if not isinstance(outputs, keras.KerasTensor):
        return False
    if metrics is not None:
        metrics.build(labels, outputs)
    loss.build(labels, outputs)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return True


def _list_parts(model: keras.Model) -> Iterator[Any]:
    """Gives what would be called: the model with its layers, the loss and the metrics."""
    yield from model._flatten_layers()
    yield from tree.flatten(model._compile_loss._user_loss)
    for metric in _list_metrics(model):
        yield metric
        if isinstance(metric, keras.metrics.MeanMetricWrapper):
            yield metric._fn


def _list_metrics(model: keras.Model) -> list[Any]:
    metrics = model._compile_metrics
    if metrics is None:
        return []
    found: list[Any] = tree.flatten([metrics._user_metrics, metrics._user_weighted_metrics])
    return found


def _is_own(part: Any) -> bool:
    """Returns whether the code of a part is Keras' own; what is told by name is."""
    if part is None or isinstance(part, str):
        return True
    code = part if isinstance(part, types.FunctionType) else type(part)
    return code.__module__.startswith(_OWN) and not isinstance(part, keras.layers.Lambda)


def _is_counting(metric: Any) -> bool:
    """Returns whether a metric is a mean over examples, whose variables exist from the start."""
    if isinstance(metric, str):
        metric = keras_metrics.ALL_OBJECTS_DICT.get(metric, keras.metrics.Accuracy)
    if metric is None or isinstance(metric, types.FunctionType):
        return True
    return issubclass(metric if isinstance(metric, type) else type(metric), keras.metrics.Mean)
