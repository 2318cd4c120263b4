"""Every native kernel with gradients beside TensorFlow's operations that it replaces."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from quintain.kernels import (
    attention,
    attention_weights,
    feed_forward,
    modes,
    residual_norm,
    selection,
)
from quintain.kernels import dropout as dropout_kernel
from quintain.nlp.modeling import activations
from quintain.nlp.modeling.layers import dropout as dropout_layer
from quintain.nlp.modeling.layers import layer_normalization
from quintain.nlp.modeling.losses import padded_cross_entropy

RATE = 0.25
SEED = tf.constant([3, 41], tf.int64)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Functions of rows `[N, D]`."""

    native: Callable[[tf.Tensor], Any]
    plain: Callable[[tf.Tensor], Any]


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


def _softmax(x: tf.Tensor) -> tf.Tensor:
    """Returns the softmax as it is defined: oneDNN's keeps NaN to its place."""
    powers = tf.exp(x - tf.stop_gradient(tf.reduce_max(x, axis=-1, keepdims=True)))
    return powers / tf.reduce_sum(powers, axis=-1, keepdims=True)


def _measure_loss(x: tf.Tensor) -> tf.Tensor:
    labels = tf.range(tf.shape(x)[0]) % tf.maximum(tf.shape(x)[1], 1)
    with selection.training_scope(modes.KernelMode.NATIVE):
        return padded_cross_entropy.smoothed_cross_entropy(x, labels, 0.1)


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


KERNELS = {
    "dropout": Kernel(lambda x: dropout_kernel.drop(x, _draw()), _drop),
    "residual": Kernel(lambda x: dropout_kernel.drop(x, _draw(), x), lambda x: x + _drop(x)),
    "norm": Kernel(_normalise, _normalise_plainly),
    "relu": Kernel(
        lambda x: _expand(x, is_gelu=False), lambda x: _expand_plainly(x, is_gelu=False)
    ),
    "gelu": Kernel(lambda x: _expand(x, is_gelu=True), lambda x: _expand_plainly(x, is_gelu=True)),
    "weights": Kernel(_weigh, _weigh_plainly),
    "attention": Kernel(_attend, _attend_plainly),
    "loss": Kernel(_measure_loss, _measure_loss_plainly),
}


def run(compute: Callable[[tf.Tensor], Any], x: tf.Tensor) -> list[np.ndarray]:
    """Returns the result and the gradient, float32, of rows whose upstream is a wave."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = compute(x)
    upstream = tf.reshape(tf.sin(tf.range(tf.size(result), dtype=tf.float32)), tf.shape(result))
    gradient = tape.gradient(result, x, output_gradients=tf.cast(upstream, result.dtype))
    return [tf.cast(one, tf.float32).numpy() for one in (result, gradient)]
