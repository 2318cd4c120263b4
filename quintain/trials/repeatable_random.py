"""Random operations of a graph as functions of the step.

TensorFlow 1's random operations keep their state where no checkpoint reaches it, so that a training
that goes on from a checkpoint draws other numbers than one that was not interrupted. While a graph
is built here, stateless ones take their place, whose seed is made of the operation's seed and the
step.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.ops import gen_random_ops, stateless_random_ops

_MODULUS: Final = 2**31 - 1


@contextlib.contextmanager
def stepwise(step: tf.Tensor) -> Iterator[None]:
    """Replaces random operations that are added to the graph within this block.

    Args:
        step: Scalar int64 tensor of the graph: different in each step.
    """
    with contextlib.ExitStack() as stack:
        for name, build in _REPLACEMENTS.items():

            def replacement(*args: Any, _build: Callable[..., Any] = build, **kwargs: Any) -> Any:
                seeds = kwargs.pop("seed", 0) or 0, kwargs.pop("seed2", 0) or 0
                mixed = (seeds[0] * 1_000_003 + seeds[1]) % _MODULUS
                return _build(tf.stack([tf.constant(mixed, tf.int64), step]), *args, **kwargs)

            stack.callback(setattr, gen_random_ops, name, getattr(gen_random_ops, name))
            setattr(gen_random_ops, name, replacement)
        yield


def _uniform(seed: tf.Tensor, shape: Any, dtype: Any, name: str | None = None) -> tf.Tensor:
    return stateless_random_ops.stateless_random_uniform(shape, seed, dtype=dtype, name=name)


def _uniform_int(
    seed: tf.Tensor, shape: Any, minval: Any, maxval: Any, name: str | None = None
) -> tf.Tensor:
    minval = tf.convert_to_tensor(minval)
    return stateless_random_ops.stateless_random_uniform(
        shape, seed, minval=minval, maxval=maxval, dtype=minval.dtype, name=name
    )


def _normal(seed: tf.Tensor, shape: Any, dtype: Any, name: str | None = None) -> tf.Tensor:
    return stateless_random_ops.stateless_random_normal(shape, seed, dtype=dtype, name=name)


def _truncated_normal(
    seed: tf.Tensor, shape: Any, dtype: Any, name: str | None = None
) -> tf.Tensor:
    return stateless_random_ops.stateless_truncated_normal(shape, seed, dtype=dtype, name=name)


def _multinomial(
    seed: tf.Tensor,
    logits: Any,
    num_samples: Any,
    output_dtype: Any = tf.int64,
    name: str | None = None,
) -> tf.Tensor:
    return stateless_random_ops.stateless_multinomial(
        logits, num_samples, seed, output_dtype=output_dtype, name=name
    )


def _shuffle(seed: tf.Tensor, value: Any, name: str | None = None) -> tf.Tensor:
    return tf.random.experimental.stateless_shuffle(value, seed, name=name)


def _gamma(seed: tf.Tensor, shape: Any, alpha: Any, name: str | None = None) -> tf.Tensor:
    alpha = tf.convert_to_tensor(alpha)
    full = tf.concat([shape, tf.shape(alpha)], axis=0)
    return stateless_random_ops.stateless_random_gamma(
        full, seed, alpha, dtype=alpha.dtype, name=name
    )


_REPLACEMENTS: Final[dict[str, Callable[..., Any]]] = {
    "random_uniform": _uniform,
    "random_uniform_int": _uniform_int,
    "random_standard_normal": _normal,
    "truncated_normal": _truncated_normal,
    "multinomial": _multinomial,
    "random_shuffle": _shuffle,
    "random_gamma": _gamma,
}
