"""Helper functions on tensors, replicas and Keras objects."""

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from quintain.modeling import activations


def get_shape_list(
    tensor: tf.Tensor, expected_rank: int | Sequence[int] | None = None, name: str | None = None
) -> list[Any]:
    """Returns the shape of a tensor: Python numbers, and scalar tensors for unknown dimensions.

    `expected_rank` and `name` are those of `assert_rank`; no rank is checked if it is None.

    Raises:
        ValueError: If its rank is another.
    """
    if expected_rank is not None:
        assert_rank(tensor, expected_rank, name)
    static = tensor.shape.as_list()
    if None not in static:
        return static
    dynamic = tf.shape(tensor)
    return [dynamic[axis] if size is None else size for axis, size in enumerate(static)]


def assert_rank(
    tensor: tf.Tensor, expected_rank: int | Sequence[int], name: str | None = None
) -> None:
    """Checks the number of dimensions of a tensor, which `name` calls in the error.

    Raises:
        ValueError: If it is not `expected_rank`, or none of several.
    """
    allowed = [expected_rank] if isinstance(expected_rank, int) else list(expected_rank)
    if tensor.shape.rank not in allowed:
        raise ValueError(
            f"{name or 'tensor'}: got rank {tensor.shape.rank} (shape {tensor.shape}), expected "
            f"rank {expected_rank!r}."
        )


def safe_mean(losses: tf.Tensor) -> tf.Tensor:
    """Returns the mean of all numbers in a tensor; 0 if there are none."""
    return tf.math.divide_no_nan(tf.reduce_sum(losses), tf.cast(tf.size(losses), losses.dtype))


def share_of_replica(count: tf.Tensor) -> tf.Tensor | None:
    """Returns the share of a replica's scalar in the sum of all, times the number of replicas.

    None of a single one.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    count = tf.cast(count, tf.float32)
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, count)
    return tf.math.divide_no_nan(context.num_replicas_in_sync * count, total)


def get_replica_id() -> Any:
    """Returns this replica's place among all replicas.

    Raises:
        RuntimeError: Outside of a replica context.
    """
    context = tf.distribute.get_replica_context()
    if context is None:
        raise RuntimeError(
            "get_replica_id: there is no replica here. Call it from a function that "
            "`strategy.run` runs."
        )
    return context.replica_id_in_sync_group


def cross_replica_concat(
    value: tf.Tensor, axis: int, name: str = "cross_replica_concat"
) -> tf.Tensor:
    """Returns the tensors of all replicas joined along an axis, in the order of the replicas.

    All must have the same, statically known, number of rows.

    Raises:
        RuntimeError: If the first dimension is not known, as for a last batch that may be smaller,
            or outside of a replica context.
    """
    if value.shape.as_list()[0] is None:
        raise RuntimeError(
            f"cross_replica_concat: got shape {value.shape}, whose first dimension is unknown. "
            "Batch with `drop_remainder=True`."
        )
    context = tf.distribute.get_replica_context()
    if context is None:
        raise RuntimeError("cross_replica_concat: there is no replica here.")
    with tf.name_scope(name):
        return context.all_gather(value, axis=axis)


def get_activation(
    identifier: Any, use_keras_layer: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Returns an activation by its name.

    Args:
        identifier: `gelu` (approximated by tanh), `simple_swish`, `hard_swish`, `hard_sigmoid`,
            `relu6`, `identity`, `mish`, or any name or object that `keras.activations.get` knows.
        use_keras_layer: Whether to return a layer where there is one of that name. `gelu` is then
            exact unless `approximate=True` is given.
        **kwargs: Arguments of the layers `leaky_relu` and `gelu`.

    Raises:
        ValueError: If the name is unknown.
    """
    if isinstance(identifier, str):
        identifier = identifier.lower()
        if use_keras_layer and identifier in _LAYERS:
            return keras.layers.Activation(_LAYERS[identifier](**kwargs))
        identifier = _ACTIVATIONS.get(identifier, identifier)
    activation: Callable[..., Any] = keras.activations.get(identifier)
    return activation


def clone_initializer(initializer: Any) -> Any:
    """Returns a copy of an initializer, which draws other numbers; anything else as it is.

    An initializer of Keras gives the same numbers each time, so that two weights of the same shape
    need one each. Names and configs become an initializer of their own anyway.
    """
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    return initializer.__class__.from_config(initializer.get_config())


def build_constant_initializer(stddev: float) -> keras.initializers.Initializer:
    """Returns a truncated normal initializer for a constant of a module, to be cloned where used.

    Keras draws a seed for it. Python's random numbers are put back, or what is drawn after
    `runtime.seed` was set would depend on whether the module had been imported before.
    """
    state = random.getstate()
    try:
        return keras.initializers.TruncatedNormal(stddev=stddev)
    finally:
        random.setstate(state)


def serialize_keras_object(obj: Any) -> Any:
    """Returns the config of a Keras object."""
    return keras.saving.serialize_keras_object(obj)


def deserialize_keras_object(
    config: Any,
    module_objects: Mapping[str, Any] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    printable_module_name: str | None = None,
) -> Any:
    """Returns the Keras object that a config of `serialize_keras_object` describes.

    Its class is looked for in `custom_objects`, then in `module_objects`, both by name.
    """
    del printable_module_name
    return keras.saving.deserialize_keras_object(
        config, custom_objects={**(module_objects or {}), **(custom_objects or {})}
    )


def serialize_layer(layer: keras.Layer, use_legacy_format: bool = False) -> dict[str, Any]:
    """Returns the config of a layer. Keras 3 has no legacy format to choose."""
    del use_legacy_format
    return keras.layers.serialize(layer)


def serialize_initializer(initializer: Any, use_legacy_format: bool = False) -> dict[str, Any]:
    """Returns the config of an initializer. Keras 3 has no legacy format to choose."""
    del use_legacy_format
    return keras.initializers.serialize(initializer)


def serialize_regularizer(regularizer: Any, use_legacy_format: bool = False) -> dict[str, Any]:
    """Returns the config of a regularizer. Keras 3 has no legacy format to choose."""
    del use_legacy_format
    return keras.regularizers.serialize(regularizer)


def serialize_constraint(constraint: Any, use_legacy_format: bool = False) -> dict[str, Any]:
    """Returns the config of a constraint. Keras 3 has no legacy format to choose."""
    del use_legacy_format
    return keras.constraints.serialize(constraint)


def serialize_activation(activation: Any, use_legacy_format: bool = False) -> Any:
    """Returns the name or the config of an activation. Keras 3 has no legacy format to choose."""
    del use_legacy_format
    return keras.activations.serialize(activation)


def pack_inputs(inputs: Any) -> tuple[tf.Tensor, ...]:
    """Returns the tensors of a structure, with `[]` int32 zeros in the places of None."""
    return tuple(
        tf.constant(0, tf.int32) if tensor is None else tensor for tensor in tf.nest.flatten(inputs)
    )


def unpack_inputs(inputs: Any) -> Any:
    """Returns what `pack_inputs` was given, as a tuple; a single one as it is."""
    found = tuple(
        None if is_special_none_tensor(tensor) else tensor for tensor in tf.nest.flatten(inputs)
    )
    return found[0] if len(found) == 1 else found


def is_special_none_tensor(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor stands for None in what `pack_inputs` returns."""
    return tensor.shape.rank == 0 and tensor.dtype == tf.int32


gelu = activations.gelu

_ACTIVATIONS: Final = {name: getattr(activations, name) for name in activations.__all__}

_LAYERS: Final[dict[str, Callable[..., Any]]] = {
    "relu": lambda: "relu",
    "linear": lambda: "linear",
    "identity": lambda: "linear",
    "swish": lambda: "swish",
    "sigmoid": lambda: "sigmoid",
    "relu6": lambda: activations.relu6,
    "leaky_relu": lambda **kwargs: functools.partial(tf.nn.leaky_relu, **kwargs),
    "hard_swish": lambda: activations.hard_swish,
    "hard_sigmoid": lambda: activations.hard_sigmoid,
    "mish": lambda: activations.mish,
    "gelu": lambda **kwargs: functools.partial(tf.nn.gelu, **kwargs),
}
