"""Every native kernel beside TensorFlow's operations that it replaces."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from quintain.kernels import (
    adam,
    attention,
    attention_weights,
    feed_forward,
    library,
    modes,
    products,
    residual_norm,
    selection,
)
from quintain.kernels import dropout as dropout_kernel
from quintain.modeling import token_losses
from quintain.nlp.modeling import activations
from quintain.nlp.modeling.layers import dropout as dropout_layer
from quintain.nlp.modeling.layers import layer_normalization

RATE = 0.25
SEED = tf.constant([3, 41], tf.int64)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Functions of rows `[N, D]`, each of which gives a row of its own."""

    native: Callable[[tf.Tensor], Any]
    plain: Callable[[tf.Tensor], Any]

    has_gradient: bool = True
    """Whether the native one can be differentiated."""

    rounds: bool = False
    """Whether it rounds float32 numbers to bfloat16."""


def _drop(x: tf.Tensor) -> tf.Tensor:
    return dropout_layer.Dropout(RATE).drop_plainly(x, SEED)


def _draw() -> dropout_kernel.Draw:
    return dropout_layer.Dropout(RATE).make_draw(SEED)


def _wave(size: Any) -> tf.Tensor:
    return tf.sin(tf.range(size, dtype=tf.float32)) + 1.5


def _expand(x: tf.Tensor, *, is_gelu: bool) -> tf.Tensor:
    eye = tf.eye(x.shape[-1], dtype=x.dtype)
    bias = tf.zeros([x.shape[-1]], x.dtype)
    return feed_forward.expand(x, eye, bias, is_gelu=is_gelu, draw=_draw())


def _expand_plainly(x: tf.Tensor, *, is_gelu: bool) -> tf.Tensor:
    product = tf.matmul(x, tf.eye(x.shape[-1], dtype=x.dtype))
    return _drop((activations.approximate_gelu if is_gelu else tf.nn.relu)(product))


def _normalise(x: tf.Tensor) -> tf.Tensor:
    row = _wave(x.shape[-1])
    options = {"epsilon": 1e-6, "dtype": x.dtype, "residual": x, "draw": _draw()}
    return residual_norm.normalise(x, row, row, **options)


def _normalise_plainly(x: tf.Tensor) -> tf.Tensor:
    row = _wave(x.shape[-1])
    total = x + _drop(x)
    return layer_normalization.normalise_plainly(total, row, row, epsilon=1e-6, dtype=x.dtype)


def _weigh(x: tf.Tensor) -> tf.Tensor:
    scores = x[tf.newaxis, tf.newaxis]
    return attention_weights.weigh(scores, None, scale=0.5, draw=_draw())[0, 0]


def _weigh_plainly(x: tf.Tensor) -> tf.Tensor:
    weights = _softmax(tf.cast(x, tf.float32) * 0.5)
    return _drop(tf.cast(weights, x.dtype))


def _make_memory(x: tf.Tensor) -> tf.Tensor:
    """Returns keys and values, `[1, 9, 2 * D]`, of other numbers than the rows'."""
    width = 2 * x.shape[-1]
    return tf.cast(tf.reshape(_wave(9 * width), [1, 9, width]), x.dtype)


def _attend(x: tf.Tensor) -> tf.Tensor:
    options = {"num_heads": 1, "scale": 0.125, "draw": _draw()}
    return attention.attend(x[tf.newaxis], _make_memory(x), None, **options)[0]


def _attend_plainly(x: tf.Tensor) -> tf.Tensor:
    keys, values = tf.split(tf.cast(_make_memory(x)[0], tf.float32), 2, axis=-1)
    scores = tf.matmul(tf.cast(x, tf.float32), keys, transpose_b=True) * 0.125
    return tf.cast(tf.matmul(_drop(_softmax(scores)), values), x.dtype)


def _make_scores(x: tf.Tensor) -> tf.Tensor:
    """Returns scores of three examples and two heads, `[3, 2, N, D]`, of other numbers."""
    shape = [3, 2, *x.shape]
    return tf.cast(tf.reshape(_wave(int(np.prod(shape))), shape), x.dtype)


def _weigh_by_bias(x: tf.Tensor) -> tf.Tensor:
    """Takes the rows for a bias that all heads of all examples have."""
    scores, draw = _make_scores(x), _draw()
    weights = attention_weights.weigh(scores, x[tf.newaxis, tf.newaxis], scale=0.5, draw=draw)
    return _join_heads(weights)


def _weigh_by_bias_plainly(x: tf.Tensor) -> tf.Tensor:
    scores = tf.cast(_make_scores(x), tf.float32) * 0.5
    return _join_heads(_drop(tf.cast(_softmax(scores + tf.cast(x, tf.float32)), x.dtype)))


def _join_heads(x: tf.Tensor) -> tf.Tensor:
    """Turns `[B, H, N, D]` into rows `[N, B * H * D]`."""
    return tf.reshape(
        tf.transpose(x, [2, 0, 1, 3]), [x.shape[2], x.shape[0] * x.shape[1] * x.shape[3]]
    )


def _make_projections(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns queries `[3, N, 8]` and keys and values `[3, D, 16]`, of other numbers."""
    shapes = [[3, x.shape[0], 8], [3, x.shape[1], 16]]
    return tuple(tf.cast(tf.reshape(_wave(int(np.prod(one))), one), x.dtype) for one in shapes)


def _attend_by_bias(x: tf.Tensor) -> tf.Tensor:
    """Takes the rows for a bias that both heads of all examples have."""
    options = {"num_heads": 2, "scale": 0.125, "draw": _draw()}
    mixed = attention.attend(*_make_projections(x), x, **options)
    return _join_heads(mixed[:, tf.newaxis])


def _attend_by_bias_plainly(x: tf.Tensor) -> tf.Tensor:
    queries, memory = (tf.cast(one, tf.float32) for one in _make_projections(x))
    queries, keys, values = (
        tf.stack(tf.split(one, 2, axis=-1), axis=1)  # [3, 2, N or D, 4]
        for one in (queries, *tf.split(memory, 2, axis=-1))
    )
    scores = tf.matmul(queries, keys, transpose_b=True) * 0.125 + tf.cast(x, tf.float32)
    mixed = tf.matmul(_drop(_softmax(scores)), values)  # [3, 2, N, 4]
    beside = tf.concat(tf.unstack(mixed, axis=1), axis=-1)[:, tf.newaxis]  # [3, 1, N, 8]
    return tf.cast(_join_heads(beside), x.dtype)


def _softmax(x: tf.Tensor) -> tf.Tensor:
    """Returns the softmax as it is defined: oneDNN's keeps NaN to its place."""
    powers = tf.exp(x - tf.stop_gradient(tf.reduce_max(x, axis=-1, keepdims=True)))
    return powers / tf.reduce_sum(powers, axis=-1, keepdims=True)


def _measure_loss(x: tf.Tensor) -> tf.Tensor:
    labels = tf.range(tf.shape(x)[0]) % tf.maximum(tf.shape(x)[1], 1)
    with selection.training_scope(modes.KernelMode.NATIVE):
        return token_losses.smoothed_cross_entropy(x, labels, 0.1)


def _measure_loss_plainly(x: tf.Tensor) -> tf.Tensor:
    size = x.shape[-1]
    labels = tf.one_hot(tf.range(tf.shape(x)[0]) % max(size, 1), size)
    on, off = 0.9, 0.1 / max(size - 1, 1)
    targets = labels * on + (1 - labels) * off
    x = tf.cast(x, tf.float32)
    top = tf.stop_gradient(tf.reduce_max(x, axis=-1, keepdims=True))
    normaliser = tf.math.log(tf.reduce_sum(tf.exp(x - top), axis=-1, keepdims=True)) + top
    entropy = tf.reduce_sum(tf.math.xlogy(targets, targets), axis=-1)
    return tf.reduce_sum(targets * (normaliser - x), axis=-1) + entropy


def _matrix(*shape: int) -> tf.Tensor:
    size = int(np.prod(shape))
    return tf.cast(tf.reshape(tf.sin(tf.range(size, dtype=tf.float32)) + 0.1, shape), tf.bfloat16)


def _round(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.bfloat16)


def _multiply(x: tf.Tensor) -> tf.Tensor:
    """Multiplies rows from the left, and, transposed, from the right; sums them, too."""
    width = x.shape[1]
    product = products.multiply(_round(x), _matrix(width, 37), _matrix(37))
    other = products.multiply(_round(x), _matrix(5, width), transpose_right=True)
    turned = products.product(_matrix(9, width), x, transpose_right=True)
    summed = products.product_and_sums(_matrix(width, 6), _round(tf.transpose(x)))
    columns = tf.concat([turned, *(tf.reshape(one, [-1, x.shape[0]]) for one in summed)], axis=0)
    return tf.concat([product, other, tf.stop_gradient(tf.transpose(columns))], axis=1)


def _multiply_plainly(x: tf.Tensor) -> tf.Tensor:
    width = x.shape[1]
    rows, *others = (
        tf.cast(one, tf.float32)
        for one in (
            *(_round(x), _matrix(width, 37), _matrix(37), _matrix(5, width)),
            *(_matrix(9, width), _matrix(width, 6)),
        )
    )
    product = rows @ others[0] + others[1]
    other = tf.matmul(rows, others[2], transpose_b=True)
    fixed = [tf.matmul(rows, others[3], transpose_b=True), rows @ others[4]]
    columns = tf.concat([*fixed, tf.reduce_sum(rows, axis=1, keepdims=True)], axis=1)
    return _round(tf.concat([product, other, tf.stop_gradient(columns)], axis=1))


def _add_to_table(x: tf.Tensor) -> tf.Tensor:
    """Adds each row, the last one first, to a table of its own, and to itself."""
    ids = tf.range(x.shape[0], dtype=tf.int64)
    rows = tf.cast(x, tf.float32)
    turned = {"gradients": tf.reverse(rows, [0]), "ids": tf.reverse(ids, [0])}
    return library.get().quintain_table_gradient(dense=x, **turned)


def _sum_half_squares(x: tf.Tensor) -> tf.Tensor:
    sums = [adam.sum_half_squares([row]) for row in tf.unstack(x)]
    return tf.stack(sums) if sums else tf.zeros([0])


def _update(x: tf.Tensor) -> tf.Tensor:
    """Takes the rows for gradients of a variable."""
    weight, mean, square, average = (tf.Variable(tf.ones(x.shape)) for _ in range(4))
    handles = {"weight": weight, "mean": mean, "square": square, "average": average}
    variable = adam.Variable(**{key: one.handle for key, one in handles.items()}, gradient=x)
    numbers = {"rate": 0.1, "beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-3, "kept": 0.5}
    adam.update([variable], adam.Scalars(**numbers))
    return tf.concat([one.read_value() for one in handles.values()], axis=1)


def _update_plainly(x: tf.Tensor) -> tf.Tensor:
    gradient = tf.cast(x, tf.float32)
    mean = 1.0 + (gradient - 1.0) * 0.1
    square = 1.0 + (gradient**2 - 1.0) * 0.01
    weight = 1.0 - mean * 0.1 / (tf.sqrt(square) + 1e-3)
    return tf.concat([weight, mean, square, 0.5 + 0.5 * weight], axis=1)


KERNELS = {
    "dropout": Kernel(lambda x: dropout_kernel.drop(x, _draw()), _drop),
    "residual": Kernel(lambda x: dropout_kernel.drop(x, _draw(), x), lambda x: x + _drop(x)),
    "norm": Kernel(_normalise, _normalise_plainly),
    "relu": Kernel(
        lambda x: _expand(x, is_gelu=False), lambda x: _expand_plainly(x, is_gelu=False)
    ),
    "gelu": Kernel(lambda x: _expand(x, is_gelu=True), lambda x: _expand_plainly(x, is_gelu=True)),
    "weights": Kernel(_weigh, _weigh_plainly),
    "weights_bias": Kernel(_weigh_by_bias, _weigh_by_bias_plainly),
    "attention": Kernel(_attend, _attend_plainly),
    "attention_bias": Kernel(_attend_by_bias, _attend_by_bias_plainly),
    "loss": Kernel(_measure_loss, _measure_loss_plainly),
    "product": Kernel(_multiply, _multiply_plainly, rounds=True),
    "rows": Kernel(
        lambda x: feed_forward.sum_rows(tf.transpose(x)),
        lambda x: tf.cast(tf.reduce_sum(tf.cast(x, tf.float32), axis=1), x.dtype),
        has_gradient=False,
    ),
    "table": Kernel(_add_to_table, lambda x: 2.0 * tf.cast(x, tf.float32), has_gradient=False),
    "squares": Kernel(
        _sum_half_squares,
        lambda x: tf.reduce_sum(tf.cast(x, tf.float32) ** 2, axis=1) / 2.0,
        has_gradient=False,
    ),
    "adam": Kernel(_update, _update_plainly, has_gradient=False),
}


def list_operations(kernel: Kernel) -> set[str]:
    """Returns the names of the native operations that a kernel and its gradient run."""
    found: set[str] = set()

    def note(name: str | bytes, *_: Any, **__: Any) -> None:
        found.add(tf.compat.as_str(name))

    op_callbacks.add_op_callback(note)
    try:
        run(kernel, kernel.native, tf.ones([6, 4]))
    finally:
        op_callbacks.remove_op_callback(note)
    return {name for name in found if name.startswith("Quintain")}


def run(kernel: Kernel, compute: Callable[[tf.Tensor], Any], x: tf.Tensor) -> list[np.ndarray]:
    """Returns the result and the gradient, float32, of rows whose upstream is a wave.

    Args:
        kernel: The kernel, which may have no gradient.
        compute: One of its functions.
        x: `[N, D]`, the rows.
    """
    if not kernel.has_gradient:
        return [tf.cast(compute(x), tf.float32).numpy()]
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = compute(x)
    upstream = tf.reshape(tf.sin(tf.range(tf.size(result), dtype=tf.float32)), tf.shape(result))
    gradient = tape.gradient(result, x, output_gradients=tf.cast(upstream, result.dtype))
    return [tf.cast(one, tf.float32).numpy() for one in (result, gradient)]
