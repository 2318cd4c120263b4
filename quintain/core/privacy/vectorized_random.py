"""Random layers inside `tf.vectorized_map`: one draw for all examples instead of a loop.

TensorFlow vectorises stateless random operations by a sequential loop, since each example must get
what its own seed gives. Examples in training only need numbers that differ, so here the seed of the
first example draws for all of them at once.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.ops.parallel_for import pfor  # There is no public way to add a converter.

_DRAWS: Final[dict[str, Callable[..., tf.Tensor]]] = {
    "StatelessRandomUniformV2": tf.raw_ops.StatelessRandomUniformV2,
    "StatelessRandomUniformFullIntV2": tf.raw_ops.StatelessRandomUniformFullIntV2,
    "StatelessRandomNormalV2": tf.raw_ops.StatelessRandomNormalV2,
    "StatelessTruncatedNormalV2": tf.raw_ops.StatelessTruncatedNormalV2,
}
_KEYS: Final = "StatelessRandomGetKeyCounter"


@contextlib.contextmanager
def drawing_together() -> Iterator[None]:
    """Makes `tf.vectorized_map` inside draw random numbers for all examples at once.

    Every example still gets numbers of its own, and the same ones for the same seeds.
    """
    converters = dict.fromkeys(_DRAWS, _draw) | {_KEYS: _make_keys}
    registry = pfor._pfor_converter_registry
    added = {name: converter for name, converter in converters.items() if name not in registry}
    registry.update(added)
    try:
        yield
    finally:
        for name in added:
            del registry[name]


def _draw(pfor_input: Any) -> Any:
    """Draws `[n, *shape]` by the key of the first of n examples."""
    shape, key, counter = (_take_first(pfor_input, index) for index in range(3))
    operation = pfor_input.op
    count = tf.cast(pfor_input.pfor.loop_len_vector, shape.dtype)  # [1]
    shape = tf.concat([count, shape], axis=0)  # [1 + rank of what an example draws]
    drawn = _DRAWS[operation.type](
        shape=shape,
        key=key,
        counter=counter,
        alg=_take_first(pfor_input, 3),
        dtype=operation.outputs[0].dtype,
    )
    return pfor.wrap(drawn, True)


def _make_keys(pfor_input: Any) -> list[Any]:
    """Makes the key and the counter of the first example, for all of them."""
    made = tf.raw_ops.StatelessRandomGetKeyCounter(seed=_take_first(pfor_input, 0))
    count = pfor_input.pfor.loop_len_vector  # [1]
    return [
        pfor.wrap(tf.broadcast_to(part, tf.concat([count, tf.shape(part)], axis=0)), True)
        for part in (made.key, made.counter)
    ]


def _take_first(pfor_input: Any, index: int) -> tf.Tensor:
    tensor, is_stacked, _ = pfor_input.input(index)
    return tensor[0] if is_stacked else tensor
