"""Native kernels train a learnt bias of attention as TensorFlow does; masks cost nothing more."""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import op_callbacks

from quintain.kernels import attention, attention_weights, library, modes
from quintain.nlp.modeling.layers import fused_attention
from tests.kernels import native_steps

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)


def draw_numbers(*shape: int, dtype: tf.DType = tf.float32, seed: int = 0) -> tf.Tensor:
    return tf.cast(np.random.default_rng(seed).normal(size=shape), dtype)


class WeighingAttention(fused_attention.SelfAttention):
    """Attention of a user's own, whose products are TensorFlow's."""

    def attend(self, *given: Any) -> tf.Tensor:
        """Attends as the class above."""
        return super().attend(*given)


def compute_alibi(slopes: tf.Tensor) -> tf.Tensor:
    """Returns `[H, 5, 5]`, distances times the slope of a head."""
    places = tf.range(5, dtype=tf.float32)
    return -slopes[:, tf.newaxis, tf.newaxis] * tf.abs(places[:, tf.newaxis] - places)


def compute_relative(table: tf.Tensor) -> tf.Tensor:
    """Returns `[1, H, 5, 5]`, as T5 has them, from a table `[9, H]`."""
    places = tf.range(5)
    found = tf.gather(table, places[:, tf.newaxis] - places + 4)  # [5, 5, H]
    return tf.transpose(found, [2, 0, 1])[tf.newaxis]


def compute_mask(logits: tf.Tensor) -> tf.Tensor:
    """Returns `[1, 1, 1, 5]`, a mask of so soft borders that it can be learnt."""
    return fused_attention.to_bias(tf.sigmoid(logits)[tf.newaxis, tf.newaxis], tf.float32) * 1e-9


BIASES = {
    "alibi": (compute_alibi, [2]),
    "relative": (compute_relative, [9, 2]),
    "mask": (compute_mask, [5]),
}


@pytest.fixture(name="dtype", params=["float32", "mixed_bfloat16"])
def _policy(request: pytest.FixtureRequest) -> Iterator[str]:
    """Makes layers compute in a type, which is returned."""
    keras.config.set_dtype_policy(request.param)
    yield keras.config.dtype_policy().compute_dtype
    keras.config.set_dtype_policy("float32")


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=[
        "float32-relative-SelfAttention",
        "mixed_bfloat16-alibi-WeighingAttention",
        "float32-mask-SelfAttention",
    ],
)
@pytest.mark.slow
@pytest.mark.parametrize("kind", [fused_attention.SelfAttention, WeighingAttention])
@pytest.mark.parametrize("name", BIASES)
def test_layers_train_a_bias_as_with_tensorflow(
    name: str, kind: type[fused_attention.SelfAttention], dtype: str
) -> None:
    make, shape = BIASES[name]
    layer = kind(2, 8, dropout_rate=0.0, use_bias=False)
    layer.build([3, 5, 8])
    x, upstream = draw_numbers(3, 5, 8, dtype=dtype), draw_numbers(3, 5, 8, seed=2)

    def differentiate(learnt: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(learnt)
            mixed = layer(x, tf.cast(make(learnt), dtype), training=True)
            result = tf.reduce_sum(tf.cast(mixed, tf.float32) * upstream)
        return tf.convert_to_tensor(tape.gradient(result, learnt))

    learnt = draw_numbers(*shape, seed=1)
    ours, theirs = (
        native_steps.trace(differentiate, mode)(learnt).numpy()
        for mode in (modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW)
    )

    largest = np.abs(theirs).max()
    assert largest > 1e-3
    bound = 1e-5 if dtype == "float32" else 0.05
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=bound * largest)


def attend(bias: tf.Tensor) -> tf.Tensor:
    joint = draw_numbers(3, 5, 24)
    return attention.attend(joint, None, bias, num_heads=2, scale=0.5, draw=None)


def weigh(bias: tf.Tensor) -> tf.Tensor:
    return attention_weights.weigh(draw_numbers(3, 2, 5, 5), bias, scale=0.5, draw=None)


KERNELS = pytest.mark.parametrize("compute", [attend, weigh])


@pytest.mark.slow
@KERNELS
@pytest.mark.parametrize("is_learnt", [True, False])
def test_steps_compute_the_gradient_of_a_bias_only_if_it_is_learnt(
    compute: Callable[..., tf.Tensor], is_learnt: bool
) -> None:
    @tf.function(autograph=False)
    def step(x: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        def run(number: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape() as tape:
                tape.watch(x)
                bias = (
                    x if is_learnt else tf.cast(number + tf.zeros([1, 2, 5, 5], tf.int32), x.dtype)
                )
                loss = tf.reduce_sum(x) + tf.reduce_sum(compute(bias) ** 2)
            return number + 1, total + tape.gradient(loss, x)

        return tf.while_loop(lambda number, _: number < count, run, [0, tf.zeros_like(x)])[1]

    given = draw_numbers(1, 2, 5, 5), tf.constant(2)

    assert any("BiasGradient" in name for name in list_run(step, *given)) == is_learnt


def list_run(step: Any, *given: Any) -> set[str]:
    """Returns the types of operations that are left of a function when it runs."""
    context.enable_run_metadata()
    try:
        step(*given)
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    return {node.op for graph in graphs for part in graph.partition_graphs for node in part.node}


@KERNELS
@pytest.mark.parametrize("is_learnt", [True, False])
def test_eagerly_it_is_computed_only_if_a_tape_watches_it(
    compute: Callable[..., tf.Tensor], is_learnt: bool
) -> None:
    names, bias, other = [], draw_numbers(1, 2, 5, 5), tf.ones([])
    op_callbacks.add_op_callback(lambda name, *_, **__: names.append(tf.compat.as_str(name)))
    try:
        with tf.GradientTape() as tape:
            tape.watch(bias if is_learnt else other)
            loss = tf.reduce_sum(compute(bias) ** 2) * other
        gradient = tape.gradient(loss, bias if is_learnt else other)
    finally:
        op_callbacks.clear_op_callbacks()

    assert gradient is not None
    assert any("BiasGradient" in name for name in names) == is_learnt


@KERNELS
def test_second_derivatives_of_a_bias_are_refused(compute: Callable[..., tf.Tensor]) -> None:
    bias = draw_numbers(1, 2, 5, 5)
    with tf.GradientTape() as outer:
        outer.watch(bias)
        with tf.GradientTape() as inner:
            inner.watch(bias)
            loss = tf.reduce_sum(compute(bias) ** 2)
        gradient = inner.gradient(loss, bias)

    with pytest.raises(library.SecondDerivativeError, match=r"BiasGradient"):
        outer.gradient(gradient, bias)
    with (
        pytest.raises(library.SecondDerivativeError),
        tf.autodiff.ForwardAccumulator(bias, tf.ones_like(bias)),
    ):
        compute(bias)
