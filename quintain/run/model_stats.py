"""Size of a model: its weights, and the operations of a forward pass."""

import contextlib
import functools
import logging
import math
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import (  # Not public, nor is a way around.
    convert_to_constants,
    ops,
)

from quintain.files import whole_files

logger = logging.getLogger(__name__)

_FLOPS = "flops"


def write_model_params(model: tf.Module | keras.Model, output_path: str) -> None:
    """Writes a line `NAME SHAPE` for every variable, and their total size.

    Args:
        model: The model.
        output_path: File to write.
    """
    lines = [
        f"{f'{one.path}:0' if isinstance(one, keras.Variable) else one.name} {list(one.shape)}"
        for one in model.variables
    ]
    total = sum(_count(variable) for variable in model.variables)
    whole_files.write(output_path, "\n".join([*lines, "", f"Total params: {total}", ""]))


def try_count_params(model: tf.Module | keras.Model, trainable_only: bool = False) -> int | None:
    """Returns the number of weights; None, with a note in the log, if the model is not built.

    Args:
        model: The model.
        trainable_only: Whether to count trainable weights only.
    """
    if isinstance(model, keras.layers.Layer) and not model.built:
        logger.info("The number of weights of %r is unknown: it is not built.", model.name)
        return None
    variables = model.trainable_variables if trainable_only else model.variables
    return sum(_count(variable) for variable in variables)


def try_count_flops(
    model: tf.Module | keras.Model,
    inputs_kwargs: Mapping[str, Any] | None = None,
    output_path: str | None = None,
) -> int | None:
    """Returns the floating-point operations of one forward pass of a single example.

    Args:
        model: A Keras model.
        inputs_kwargs: `tf.TensorSpec`s or tensors by the names of the parameters of `model.call`,
            with all dimensions. Needed for models that do not know their inputs.
        output_path: File to write the profile to.

    Returns:
        The number, of matrix products, convolutions, elementwise operations and reductions; None,
        with a note in the log, if it can't be counted.
    """
    if not isinstance(model, keras.Model):
        return None
    try:
        return _count_flops(model, inputs_kwargs, output_path)
    except Exception as error:  # noqa: BLE001 (a model of any kind may fail in any way)
        logger.info("The FLOPs of %r can't be counted: %s", model.name, error)
        return None


def log_size(model: Any) -> None:
    """Writes the number of weights, in millions, and of FLOPs to the log, where known."""
    num_params = try_count_params(model)
    if num_params is not None:
        logger.info("Number of weights in the model: %.6f million.", num_params / 1e6)
    flops = try_count_flops(model)
    if flops is not None:
        logger.info("FLOPs of the model for one example: %.6f million.", flops / 1e6)


def _count_flops(
    model: keras.Model, inputs_kwargs: Mapping[str, Any] | None, output_path: str | None
) -> int:
    _register_einsum()
    if inputs_kwargs is not None:
        traced = tf.function(model.call).get_concrete_function(**inputs_kwargs)
    else:
        specs = keras.tree.map_structure(
            lambda part: tf.TensorSpec([1, *part.shape[1:]], part.dtype), _get_inputs(model)
        )
        traced = tf.function(lambda inputs: model(inputs, training=False)).get_concrete_function(
            specs
        )
    graph = traced.graph
    if graph.as_graph_def().library.function:
        # Shapes within loops are known only where weights are constants, several copies of them.
        frozen, _ = convert_to_constants.convert_variables_to_constants_v2_as_graph(traced)
        graph = frozen.graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none" if output_path is None else f"file:outfile={output_path}"
    profile = tf.compat.v1.profiler.profile(
        graph=graph, run_meta=tf.compat.v1.RunMetadata(), options=options
    )
    return int(profile.total_float_ops)


def _get_inputs(model: keras.Model) -> Any:
    """Returns the symbolic inputs, in the structure that the model is called with."""
    inputs = getattr(model, "_inputs_struct", None)
    if inputs is None and isinstance(model, keras.Sequential):
        inputs = model.inputs[0] if model.inputs else None
    if inputs is None:
        raise ValueError("the model does not know the shapes of its inputs; give inputs_kwargs.")
    return inputs


@functools.cache
def _register_einsum() -> None:
    """Tells TensorFlow's profiler what an einsum costs, unless it knows already."""
    with contextlib.suppress(KeyError):
        ops.RegisterStatistics("Einsum", _FLOPS)(_count_einsum)


def _count_einsum(graph: tf.Graph, node: Any) -> Any:
    """Returns two operations, a product and a sum, for every combination of all indices."""
    operation = graph.get_operation_by_name(node.name)
    equation = operation.get_attr("equation").decode()
    sizes: dict[str, int] = {}
    for labels, operand in zip(equation.split("->")[0].split(","), operation.inputs, strict=True):
        for label, size in zip(
            _list_labels(labels, operand.shape.rank), operand.shape, strict=True
        ):
            sizes[label] = max(size, sizes.get(label, 1))
    return ops.OpStats(_FLOPS, 2 * math.prod(sizes.values()))


def _list_labels(labels: str, rank: int) -> list[str]:
    """Returns a label for each dimension; those of an ellipsis are numbered from the right."""
    if "..." not in labels:
        return list(labels)
    before, after = labels.split("...")
    hidden = range(rank - len(before) - len(after), 0, -1)
    return [*before, *(f"...{index}" for index in hidden), *after]


def _count(variable: Any) -> int:
    return math.prod(variable.shape)
