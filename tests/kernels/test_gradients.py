"""What has a gradient by TensorFlow's operations has the same one by every native kernel."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from quintain.kernels import (
    attention,
    attention_weights,
    feed_forward,
    library,
    modes,
    products,
    residual_norm,
)
from quintain.kernels import dropout as dropout_kernel
from quintain.modeling import token_losses
from quintain.nlp.modeling import activations
from quintain.nlp.modeling.layers import dropout as dropout_layer
from quintain.nlp.modeling.layers import layer_normalization
from tests.kernels import native_steps

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)

SEED = tf.constant([3, 41], tf.int64)
OF_NO_GRADIENT = {"QuintainAdam", "QuintainHalfSquares", "QuintainSumRows", "QuintainTableGradient"}
"""What optimizers and the way back call; differentiated again it is an error."""


@dataclasses.dataclass(frozen=True)
class Case:
    """What calls an operation, and what TensorFlow does instead."""

    operation: str
    shapes: dict[str, tuple[int, ...]]
    """By what both are called with: all numbers that the operation takes, and maybe others."""

    native: Callable[..., Any]
    plain: Callable[..., Any]


def _drop(x: tf.Tensor) -> tf.Tensor:
    return _make_dropout().drop_plainly(x, SEED)


def _draw() -> dropout_kernel.Draw:
    return _make_dropout().make_draw(SEED)


@functools.cache
def _make_dropout() -> dropout_layer.Dropout:
    return dropout_layer.Dropout(0.25)


def _attend(queries: tf.Tensor, bias: tf.Tensor, memory: tf.Tensor | None = None) -> tf.Tensor:
    return attention.attend(queries, memory, bias, num_heads=2, scale=0.5, draw=_draw())


def _attend_plainly(
    queries: tf.Tensor, bias: tf.Tensor, memory: tf.Tensor | None = None
) -> tf.Tensor:
    joint = queries if memory is None else tf.concat([queries, memory], axis=-1)
    parts = tf.stack(tf.split(joint, 6, axis=-1))  # [6, B, S, D / 2]
    q, k, v = (tf.transpose(parts[place : place + 2], [1, 0, 2, 3]) for place in (0, 2, 4))
    weights = _weigh_plainly(tf.matmul(q, k, transpose_b=True), bias)
    return tf.concat(tf.unstack(tf.matmul(weights, v), axis=1), axis=-1)


def _weigh(scores: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    return attention_weights.weigh(scores, bias, scale=0.5, draw=_draw())


def _weigh_plainly(scores: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    return _drop(tf.nn.softmax(scores * tf.cast(0.5, scores.dtype) + bias))


def _expand(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, *, is_gelu: bool) -> tf.Tensor:
    return feed_forward.expand(inputs, kernel, bias, is_gelu=is_gelu, draw=_draw())


def _expand_plainly(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, *, is_gelu: bool
) -> tf.Tensor:
    activation = activations.approximate_gelu if is_gelu else tf.nn.relu
    return _drop(activation(tf.matmul(inputs, kernel) + bias))


def _normalise(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, residual: tf.Tensor
) -> list[tf.Tensor]:
    options = {"epsilon": 1e-3, "dtype": inputs.dtype, "draw": _draw()}
    rows = [tf.cast(row, tf.float32) for row in (gamma, beta)]
    alone = residual_norm.normalise(inputs, *rows, **options)
    return [alone, *residual_norm.add_and_normalise(inputs, *rows, residual=residual, **options)]


def _normalise_plainly(
    inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, residual: tf.Tensor
) -> list[tf.Tensor]:
    rows = [tf.cast(row, tf.float32) for row in (gamma, beta)]
    dropped = _drop(inputs)
    total, options = residual + dropped, {"epsilon": 1e-3, "dtype": inputs.dtype}
    alone = layer_normalization.normalise_plainly(dropped, *rows, **options)
    return [alone, total, layer_normalization.normalise_plainly(total, *rows, **options)]


def _measure(logits: tf.Tensor) -> tf.Tensor:
    labels = tf.constant([[1, 0, 2]])
    return token_losses.smoothed_cross_entropy(tf.cast(logits, tf.float32), labels, 0.1)


def _multiply(left: tf.Tensor, right: tf.Tensor, bias: tf.Tensor) -> list[tf.Tensor]:
    if left.dtype != tf.bfloat16:  # There are none of float32.
        return _multiply_plainly(left, right, bias)
    turned = products.multiply(left, right, bias, transpose_right=True)
    return [products.multiply(left, right, bias), turned]


def _multiply_plainly(left: tf.Tensor, right: tf.Tensor, bias: tf.Tensor) -> list[tf.Tensor]:
    return [tf.matmul(left, right) + bias, tf.matmul(left, right, transpose_b=True) + bias]


_ROWS = {"inputs": (6, 5), "residual": (6, 5)}
_EXPANDED = {"inputs": (6, 5), "kernel": (5, 7), "bias": (7,)}
CASES = {
    "attention": Case(
        "QuintainAttention",
        {"queries": (2, 3, 8), "memory": (2, 3, 16), "bias": (1, 2, 3, 3)},
        _attend,
        _attend_plainly,
    ),
    "self_attention": Case(
        "QuintainAttention",
        {"queries": (2, 3, 24), "bias": (3, 3)},
        _attend,
        _attend_plainly,
    ),
    "weights": Case(
        "QuintainAttentionWeights",
        {"scores": (2, 2, 3, 5), "bias": (2, 1, 1, 5)},
        _weigh,
        _weigh_plainly,
    ),
    "relu": Case(
        "QuintainActivation",
        _EXPANDED,
        lambda **given: _expand(**given, is_gelu=False),
        lambda **given: _expand_plainly(**given, is_gelu=False),
    ),
    "gelu": Case(
        "QuintainActivation",
        _EXPANDED,
        lambda **given: _expand(**given, is_gelu=True),
        lambda **given: _expand_plainly(**given, is_gelu=True),
    ),
    "norm": Case(
        "QuintainResidualNorm",
        {**_ROWS, "gamma": (5,), "beta": (5,)},
        _normalise,
        _normalise_plainly,
    ),
    "dropout": Case(
        "QuintainDropout",
        _ROWS,
        lambda inputs, residual: [
            dropout_kernel.drop(inputs, _draw()),
            dropout_kernel.drop(inputs, _draw(), residual),
        ],
        lambda inputs, residual: [_drop(inputs), residual + _drop(inputs)],
    ),
    "loss": Case("QuintainMeasureLogits", {"logits": (1, 3, 7)}, _measure, _measure),
    "product": Case(
        "QuintainProduct",
        {"left": (6, 5), "right": (5, 5), "bias": (5,)},
        _multiply,
        _multiply_plainly,
    ),
}


@pytest.mark.long("Further cases of a test of which some run every time", but=["float32"])
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16], ids=lambda one: one.name)
@pytest.mark.parametrize("name", CASES)
def test_whatever_has_a_gradient_in_tensorflow_has_the_same_one(name: str, dtype: tf.DType) -> None:
    _make_dropout()  # Which a graph can't.
    case = CASES[name]
    given = {
        key: tf.constant(np.random.default_rng(place).normal(size=shape), tf.float32)
        for place, (key, shape) in enumerate(case.shapes.items())
    }

    ours, theirs = (
        native_steps.trace(lambda compute=compute: differentiate(compute, given, dtype), mode)()
        for compute, mode in (
            (case.native, modes.KernelMode.NATIVE),
            (case.plain, modes.KernelMode.TENSORFLOW),
        )
    )

    has_gradient = {key: one is not None for key, one in theirs.items()}
    assert {key: one is not None for key, one in ours.items()} == has_gradient
    assert all(has_gradient.values())
    bound = 1e-5 if dtype == tf.float32 else 0.1
    for key, expected in theirs.items():
        largest = np.abs(expected).max()
        assert largest > 1e-3, key
        np.testing.assert_allclose(ours[key], expected, rtol=0.0, atol=bound * largest, err_msg=key)


def differentiate(
    compute: Callable[..., Any], given: dict[str, tf.Tensor], dtype: tf.DType
) -> dict[str, tf.Tensor | None]:
    """Returns the gradients, float32, of what is given, and of what it was cast to."""
    with tf.GradientTape() as tape:
        tape.watch(given)
        cast = {key: tf.cast(tensor, dtype) for key, tensor in given.items()}
        results = tf.nest.flatten(compute(**cast))
        waves = [tf.sin(tf.range(tf.size(one), dtype=tf.float32) + 1.0) for one in results]
        loss = tf.add_n(
            [
                tf.reduce_sum(tf.cast(tf.reshape(one, [-1]), tf.float32) * wave)
                for one, wave in zip(results, waves, strict=True)
            ]
        )
    found = tape.gradient(loss, {"given": given, "cast": cast})
    named = {f"{kind} {key}": one for kind, part in found.items() for key, one in part.items()}
    return {key: None if one is None else tf.cast(one, tf.float32) for key, one in named.items()}


def test_every_operation_and_all_that_it_takes_is_in_the_cases() -> None:
    names = library.list_gradients(library.get())
    forward = {name for name in names if not name.endswith("Gradient")} - OF_NO_GRADIENT

    assert {case.operation for case in CASES.values()} == forward
    for operation in forward:
        definition = op_def_registry.get(operation)
        is_number = {one.name: one.type == "type" for one in definition.attr}
        taken = {
            one.name
            for one in definition.input_arg
            if is_number.get(one.type_attr) or tf.as_dtype(one.type or 1).is_floating
        }
        differentiated = [case.shapes for case in CASES.values() if case.operation == operation]
        assert taken - {"key", "counter"} <= set().union(*differentiated), operation
