"""Random features of kernel attention, whose products approximate its exponentials.

Shapes:
    B  examples in the batch
    S  positions
    H  attention heads
    d  width of a head
    M  features
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf


def create_projection_matrix(m: int, d: int, seed: tf.Tensor | None = None) -> tf.Tensor:
    """Draws directions that are orthogonal, with lengths as of normally distributed vectors.

    Args:
        m: How many.
        d: Their dimensions.
        seed: `[2]` int32; equal ones draw the same. None draws directions at random.

    Returns:
        `[m, d]` float32.
    """
    current = tf.constant([0, 1]) if seed is None else seed
    blocks = []
    for _ in range(math.ceil(m / d)):
        if seed is None:
            block = tf.random.normal((d, d))
        else:
            block = tf.random.stateless_normal((d, d), seed=current)
            current = tf.random.stateless_uniform([2], seed=current, minval=None, dtype=tf.int32)
        blocks.append(tf.transpose(tf.linalg.qr(block)[0]))
    lengths = tf.norm(tf.random.stateless_normal((m, d), seed=current), axis=1, keepdims=True)
    return lengths * tf.concat(blocks, axis=0)[:m]


class _Transform(NamedTuple):
    """`factor(x) * function(x, projected)`."""

    function: Callable[[tf.Tensor], tf.Tensor]
    factor: Callable[[tf.Tensor], Any]


def _exponentiate(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(x - tf.reduce_max(x, axis=[1, 2, 3], keepdims=True))


def _one(x: tf.Tensor) -> float:
    return 1.0


_TRANSFORMS: Final = {
    "elu": _Transform(lambda x: keras.activations.elu(x) + 1, _one),
    "relu": _Transform(lambda x: keras.activations.relu(x) + 1e-3, _one),
    "square": _Transform(tf.square, _one),
    "exp": _Transform(
        _exponentiate,
        lambda x: tf.exp(-0.5 * tf.reduce_sum(tf.square(x), axis=-1, keepdims=True)),
    ),
    "expmod": _Transform(_exponentiate, lambda x: math.exp(-0.5 * math.sqrt(x.shape[-1]))),
    "identity": _Transform(lambda x: x, _one),
}

NAMES: Final = (*_TRANSFORMS, "expplus")
"""Names of the transforms; `expplus` looks at all positions, so that it has no causal form."""


def transform(
    name: str, x: tf.Tensor, other: tf.Tensor, *, is_query: bool, projection: tf.Tensor | None
) -> tf.Tensor:
    """Returns the features of queries or of keys.

    Args:
        name: One of `NAMES`.
        x: `[B, S, H, d]`.
        other: The keys of queries, or the queries of keys, `[B, S', H, d]`.
        is_query: Whether `x` are queries.
        projection: `[M, d]`; None for features of the numbers themselves.

    Returns:
        `[B, S, H, M]`, or `[B, S, H, d]`.

    Source:
        Choromanski et al., 2021 (https://arxiv.org/abs/2009.14794); Katharopoulos et al., 2020
        (https://arxiv.org/abs/2006.16236).
    """
    if name == "expplus":
        return expplus(x, other, is_query, projection)
    function, factor = _TRANSFORMS[name]
    if projection is None:
        return factor(x) * function(x)
    projection = tf.cast(projection, x.dtype)
    projected = tf.einsum("bshd,md->bshm", x, projection)
    return factor(x) * function(projected) / math.sqrt(projection.shape[0])


def expplus(
    data_orig: tf.Tensor,
    other_data: tf.Tensor,
    is_query: bool,
    projection_matrix: tf.Tensor | None = None,
    numerical_stabilizer: float = 0.000001,
    normalize_data: bool = True,
    numerical_renormalizer: bool = True,
    extra_renormalize_exp_fun: bool = False,
) -> tf.Tensor:
    """Returns positive features of least variance, which depend on both queries and keys.

    Args:
        data_orig: `[B, S, H, d]`.
        other_data: The keys of queries, or the queries of keys.
        is_query: Whether the data are queries.
        projection_matrix: `[M, d]`; None returns the data.
        numerical_stabilizer: Added to the exponentials.
        normalize_data: Whether the data are divided by the fourth root of `d`; otherwise each
            vector by its length.
        numerical_renormalizer: Whether exponents are shifted so that none is large.
        extra_renormalize_exp_fun: Whether they are shifted by the vectors' lengths as well.

    Source:
        Likhosherstov et al., 2022, section 3.4 (https://arxiv.org/abs/2205.15317).
    """
    if projection_matrix is None:
        return data_orig
    data = data_orig
    projection = tf.cast(projection_matrix, data.dtype)
    num_features, dim = projection.shape
    scale = dim**-0.25 if normalize_data else 1.0
    if not normalize_data:
        data /= tf.norm(data, axis=-1, keepdims=True)
    exponents = tf.einsum("bshd,md->bshm", scale * data, projection)
    lengths = scale**2 / 2.0 * tf.reduce_sum(tf.square(data), axis=-1, keepdims=True)

    count = tf.cast(tf.shape(data)[1], data.dtype)
    squares = [
        tf.reduce_sum(tf.square(part), axis=(1, 3), keepdims=True) / count
        for part in (data, other_data)
    ]
    sums = [tf.reduce_sum(part, axis=1, keepdims=True) for part in (data, other_data)]
    product = tf.reduce_sum(sums[0] * sums[1], axis=-1, keepdims=True) * 2.0 / tf.square(count)
    mean = scale**2 * (squares[0] + squares[1] + product)  # [B, 1, H, 1]
    root = tf.sqrt(tf.square(2.0 * mean + dim) + 8.0 * dim * mean)
    a = (1.0 - 4.0 * mean / (root - 2.0 * mean - dim)) / 8.0
    b = tf.sqrt(1.0 - 4.0 * a)
    a, b, d = (tf.stop_gradient(part) for part in (a, b, tf.pow(1.0 - 4.0 * a, dim / 4.0)))
    power = b * exponents - lengths + a * tf.reduce_sum(tf.square(projection), axis=-1)
    if numerical_renormalizer:
        axes = -1 if is_query else None
        shift = b * tf.reduce_max(exponents, axis=axes, keepdims=True)
        if extra_renormalize_exp_fun:
            shift = tf.maximum(shift, tf.reduce_max(lengths, axis=1, keepdims=True))
        power -= shift
    return num_features**-0.5 * d * (tf.exp(power) + numerical_stabilizer)
