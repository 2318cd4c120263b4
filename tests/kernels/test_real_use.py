"""Native kernels within what people do with TensorFlow."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import library, modes, selection
from quintain.nlp.modeling import layers
from quintain.nlp.modeling.layers import (
    dropout,
    feed_forward,
    fused_attention,
    layer_normalization,
    projection,
)
from tests.kernels import kernel_table, native_steps

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)

NATIVE, PLAIN = modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW
DIFFERENTIABLE = [name for name, one in kernel_table.KERNELS.items() if one.has_gradient]


def draw_rows(*shape):
    return tf.constant(np.random.default_rng(3).normal(size=shape), tf.float32)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_mode_is_refused_and_never_wrong(name):
    x = draw_rows(6, 8)

    is_refused = pytest.raises(library.SecondDerivativeError, match="forward mode")

    with is_refused, tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)):
        kernel_table.KERNELS[name].native(x)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_tape_can_be_asked_often_and_for_a_whole_jacobian(name):
    x, kernel = draw_rows(3, 5), kernel_table.KERNELS[name]
    found = []
    for compute in (kernel.native, kernel.plain):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            result = compute(x)
            double = result * 2
        gradient = tape.gradient(result, x)
        again = tape.gradient(double, x)
        np.testing.assert_allclose(again, 2 * gradient, rtol=2**-6, atol=1e-6)
        found.append(tape.jacobian(result, x))

    np.testing.assert_allclose(*found, atol=2**-6 if kernel.rounds else 1e-5)


@pytest.mark.parametrize("name", ["loss", "table", "rows"])
def test_mapped_functions_give_what_calls_do(name):
    compute, x = kernel_table.KERNELS[name].native, draw_rows(2, 6, 8)
    expected = np.stack([compute(one) for one in x])

    np.testing.assert_allclose(tf.map_fn(compute, x), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tf.vectorized_map(compute, x), expected, rtol=1e-6, atol=1e-6)


def build_block():
    block = layers.TransformerEncoderBlock(2, 16, "relu", output_dropout=0.0)
    block.build([None, 4, 8])
    return block


def differentiate(block, x, mode):
    with selection.training_scope(mode), tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(block(x, training=True), tf.float32) * draw_rows(4, 8))
        gradients = tape.gradient(loss, block.trainable_variables)
    return [loss, *gradients]


def count_native(function, *arguments):
    found = native_steps.list_operations(function, *arguments)
    return sum(one.startswith("Quintain") for one in found)


def test_a_layer_that_xla_compiles_within_a_native_step_has_tensorflow_operations():
    block, x = build_block(), draw_rows(3, 4, 8)
    compiled = tf.function(block, jit_compile=True)

    @tf.function
    def step(x):
        with selection.training_scope(NATIVE):
            return compiled(x, training=True)

    np.testing.assert_allclose(step(x), block(x, training=True), rtol=1e-4, atol=1e-5)


class OwnProjection(projection.Projection):
    def call(self, inputs):
        return 2 * super().call(inputs)


class OwnNorm(layer_normalization.LayerNormalization):
    def call(self, inputs):
        return super().call(inputs) + 1


class OwnDropout(dropout.Dropout):
    def call(self, inputs, training=False):
        return 3 * inputs


class OwnFeedForward(feed_forward.FeedForward):
    def __init__(self):
        super().__init__(8, 16, activation="relu", dropout_rate=0.1)
        self.expand = OwnProjection(16)


class OwnDroppedFeedForward(feed_forward.FeedForward):
    def __init__(self):
        super().__init__(8, 16, activation="relu")
        self.dropout = OwnDropout(0.1)


class OwnAttention(fused_attention.SelfAttention):
    def __init__(self):
        super().__init__(2, 8, dropout_rate=0.1, use_bias=True)
        self.dropout = OwnDropout(0.1)


class OwnBlock(layers.TransformerEncoderBlock):
    def __init__(self, **options):
        super().__init__(2, 16, "relu", **options)

    def build_norm(self, name, shape):
        norm = OwnNorm(self.given.norm_epsilon, name=name)
        norm.build(shape)
        return norm


@pytest.mark.parametrize(
    "build",
    [
        OwnFeedForward,
        OwnDroppedFeedForward,
        OwnAttention,
        OwnBlock,
        functools.partial(OwnBlock, norm_first=True),
    ],
)
def test_parts_of_the_users_own_compute_in_native_steps_what_they_do_elsewhere(build):
    part, x = build(), draw_rows(3, 4, 8)
    part.build([None, 4, 8])
    state = [tf.identity(one) for one in part.non_trainable_variables]

    found = differentiate(part, x, NATIVE)

    for variable, value in zip(part.non_trainable_variables, state, strict=True):
        variable.assign(value)
    for ours, theirs in zip(found, differentiate(part, x, PLAIN), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_function_of_the_users_own_is_kept_without_native_kernels():
    block, x = build_block(), draw_rows(3, 4, 8)
    own = tf.function(lambda x: block(x) if tf.reduce_sum(x) < 9 else block(x * 2))
    in_step = native_steps.trace(lambda x: own(x) + own(block(x)))

    assert count_native(in_step, x) > 3
    in_step(x)

    assert count_native(own, x) == 0
    assert count_native(tf.function(lambda x: own(x)), x) == 0


def test_loops_and_conditions_within_a_step_have_native_kernels():
    block, x = build_block(), draw_rows(3, 4, 8)

    def loop(x):
        keep = lambda x: tf.ensure_shape(block(x), x.shape)  # noqa: E731
        (looped,) = tf.while_loop(lambda _: True, lambda x: [keep(x)], [x], maximum_iterations=1)
        return tf.cond(tf.reduce_sum(looped) < 1e9, lambda: keep(looped), lambda: x)

    step = native_steps.trace(loop)

    assert count_native(step, x) > 6
    np.testing.assert_allclose(step(x), block(block(x)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_eager", [False, True])
def test_blocks_train_in_graphs_and_eagerly_with_the_same_gradients(is_eager):
    block, x = build_block(), draw_rows(3, 4, 8)
    step = tf.function(lambda x: differentiate(block, x, NATIVE))
    assert count_native(step, x) > 3

    tf.config.run_functions_eagerly(is_eager)
    try:
        found = step(x)
    finally:
        tf.config.run_functions_eagerly(False)

    for ours, theirs in zip(found, differentiate(block, x, PLAIN), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4, rtol=1e-4)


def test_a_block_in_float16_gives_what_tensorflow_does():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        block = build_block()
    finally:
        keras.config.set_dtype_policy("float32")
    x = draw_rows(3, 4, 8)

    found = tf.function(lambda x: differentiate(block, x, NATIVE))(x)

    for ours, theirs in zip(found, differentiate(block, x, PLAIN), strict=True):
        largest = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2**-6 * largest + 1e-6)


@pytest.mark.long("Replicas and kernels are tried apart in every run")
@pytest.mark.slow
@pytest.mark.e2e
def test_replicas_on_two_processors_train_and_what_is_saved_is_of_tensorflow(run_program):
    found = run_program("train_natively_on_replicas.py", is_fresh=True)

    assert found["native"] > 3
    np.testing.assert_allclose(found["gradients"], found["expected"], rtol=1e-4, atol=2e-4)
    assert found["saved"] == []
