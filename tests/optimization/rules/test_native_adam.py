"""Adam by a native kernel is Adam by TensorFlow's operations."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import optimization
from quintain.kernels import library, selection
from quintain.kernels.modes import KernelMode
from quintain.optimization import ema, gradient_accumulation, loss_scaling, norms
from quintain.optimization.schedules import lr_schedule

# The sizes are multiples of nothing; one is longer than a block of the kernel, one is empty.
SHAPES = [(7,), (300, 231), (1,), (0, 3), (5, 3), ()]
SPECIAL = [0.0, 1e-30, 1e25, -1e-12, 3e38, 1e-45, np.inf, -np.inf, np.nan]

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason="There are no native kernels on this machine."
)


def make_gradients(step, dtype, special):
    random = np.random.default_rng(step)
    gradients = [random.normal(size=shape).astype("float32") for shape in SHAPES]
    if special:
        gradients[1][0, : len(SPECIAL)] = SPECIAL
    return [tf.cast(gradient, dtype) for gradient in gradients]


def train(build, *, is_native, dtype=tf.float32, special=False, num_steps=3):
    """Returns weights and what the optimizer keeps, after some updates in a traced function."""
    random = np.random.default_rng(0)
    weights = [
        keras.Variable(random.normal(size=shape).astype("float32"), name=f"weight_{index}")
        for index, shape in enumerate(SHAPES)
    ]
    optimizer = build()
    optimizer.build(weights)

    @tf.function
    def step(*gradients):
        with selection.training_scope(KernelMode.NATIVE if is_native else KernelMode.TENSORFLOW):
            # As the gradients of weights that a layer has cast.
            cast = [tf.cast(gradient, tf.float32) for gradient in gradients]
            optimizer.apply_gradients(zip(cast, weights, strict=True))

    for number in range(num_steps):
        gradients = make_gradients(number, dtype, special)
        step(*gradients)
    graph = step.get_concrete_function(*gradients).graph.as_graph_def()
    assert ("QuintainAdam" in str(graph)) == is_native
    return [variable.numpy() for variable in [*weights, *optimizer.variables]]


def check(build, *, rtol=0.0, **options):
    """Checks that all is equal; to the bit by default, NaN included."""
    native, plain = (train(build, is_native=is_native, **options) for is_native in (True, False))
    for ours, theirs in zip(native, plain, strict=True):
        largest = np.abs(theirs).max(initial=0.0) if rtol else 0.0
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * largest)


def build_decaying(**options):
    rate = lr_schedule.ExponentialDecayWithOffset(
        initial_learning_rate=0.1, decay_steps=2, decay_rate=0.5
    )
    return optimization.AdamWeightDecay(
        rate,
        weight_decay_rate=0.1,
        exclude_from_weight_decay=["_1"],
        **{"gradient_clip_norm": 0.0, **options},
    )


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
def test_all_numbers_are_the_same_to_the_bit(dtype, special):
    check(build_decaying, dtype=dtype, special=special)


def build_averaged(**options):
    return ema.ExponentialMovingAverage(build_decaying(), average_decay=0.9, **options)


@pytest.mark.parametrize("options", [{}, {"start_step": 2, "dynamic_decay": False}], ids=str)
def test_averages_move_in_the_same_pass_to_the_same_numbers(options):
    check(functools.partial(build_averaged, **options))


def test_no_average_is_moved_twice_or_left_out():
    frozen, trained = keras.Variable([1.0]), keras.Variable([1.0])
    constrained = keras.Variable([1.0])
    constrained.constraint = keras.constraints.NonNeg()
    weights = [frozen, trained, constrained]
    optimizer = ema.ExponentialMovingAverage(
        optimization.Adam(2.0), average_decay=0.5, dynamic_decay=False
    )
    optimizer.build(weights)

    with selection.training_scope(KernelMode.NATIVE):
        optimizer.apply([None, tf.ones([1]), tf.ones([1])], weights)

    np.testing.assert_allclose([weight.numpy()[0] for weight in weights], [1, -1, 0], rtol=1e-5)
    averages = [average.numpy()[0] for average in optimizer.average_weights]
    np.testing.assert_allclose(averages, [1, 0, 0.5], atol=1e-5)


@pytest.mark.parametrize(
    "limits",
    [
        {"gradient_clip_norm": 0.5},
        {"global_clipnorm": 0.5},
        {"gradient_clip_norm": 0.5, "clipvalue": 1e-3, "global_clipnorm": 0.1},
        {"clipnorm": 0.25},
        {"gradient_clip_norm": 1e6},
    ],
    ids=str,
)
def test_limits_differ_by_the_rounding_of_the_norm(limits):
    check(functools.partial(build_decaying, **limits), dtype=tf.bfloat16, rtol=2e-6)


def test_a_norm_that_is_not_finite_makes_all_weights_nan():
    weights = train(
        lambda: build_decaying(gradient_clip_norm=1.0), is_native=True, special=True, num_steps=1
    )[: len(SHAPES)]

    assert all(np.isnan(weight).all() for weight in weights)
    check(lambda: build_decaying(gradient_clip_norm=1.0), special=True)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_the_norm_is_that_of_exact_sums(dtype):
    parts = make_gradients(0, dtype, special=False)
    exact = sum(np.square(part.numpy().astype("float64")).sum() for part in parts)

    with selection.training_scope(KernelMode.NATIVE):
        norm = norms.global_norm(parts)

    np.testing.assert_allclose(norm.numpy(), np.sqrt(exact), rtol=1e-6)


def test_a_square_that_overflows_is_infinite_as_in_tensorflow():
    with selection.training_scope(KernelMode.NATIVE):
        assert norms.global_norm([tf.constant([1e20])]).numpy() == np.inf
        assert norms.global_norm([tf.constant([1e19] * 4)]).numpy() == np.inf
    assert norms.global_norm([tf.constant([1e19] * 4)]).numpy() == np.inf


@pytest.mark.parametrize(
    "build",
    [
        lambda: gradient_accumulation.GradientAccumulation(build_decaying(), 1),
        lambda: loss_scaling.FixedLossScaleOptimizer(build_decaying(), 128.0),
        lambda: loss_scaling.LossScaleOptimizer(build_averaged(), initial_scale=8.0),
    ],
    ids=["accumulated", "fixed loss scale", "loss scale"],
)
@pytest.mark.parametrize("special", [False, True], ids=["plain", "overflow"])
def test_what_is_around_the_optimizer_changes_nothing(build, special):
    check(build, special=special)


@pytest.mark.parametrize(
    "options", [{"amsgrad": True}, {"jit_compile": True}, {"dtype": "float64"}], ids=str
)
def test_what_the_kernel_does_not_do_is_left_to_tensorflow(options):
    weight = keras.Variable([1.0], dtype=options.pop("dtype", "float32"))
    optimizer = optimization.Adam(0.5, **options)
    optimizer.build([weight])

    @tf.function
    def step():
        with selection.training_scope(KernelMode.NATIVE):
            optimizer.apply([tf.constant([3.0], weight.dtype)], [weight])

    step()

    assert "QuintainAdam" not in str(step.get_concrete_function().graph.as_graph_def())
    np.testing.assert_allclose(weight.numpy(), [0.5], rtol=1e-5)


def test_rows_of_an_embedding_count_like_dense_gradients():
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([2, 0, 2]), [3, 1])
    weights = []
    for mode in KernelMode.NATIVE, KernelMode.TENSORFLOW:
        weight = keras.Variable([[1.0], [2.0], [3.0]])
        with selection.training_scope(mode):
            optimization.Adam(0.5).apply([rows], [weight])
        weights.append(weight.numpy())

    np.testing.assert_array_equal(weights[0], weights[1])
    assert weights[0].tolist() != [[1.0], [2.0], [3.0]]


def test_what_was_read_before_the_update_stays_as_it_was():
    weight = keras.Variable(tf.ones([70_000]))
    optimizer = optimization.Adam(0.5)
    optimizer.build([weight])

    @tf.function
    def step():
        before = tf.convert_to_tensor(weight)
        with selection.training_scope(KernelMode.NATIVE):
            optimizer.apply([tf.ones([70_000])], [weight])
        return before

    np.testing.assert_array_equal(step().numpy(), np.ones(70_000))
    np.testing.assert_allclose(weight.numpy(), 0.5, rtol=1e-5)


def test_a_gradient_may_be_a_constant_from_outside_of_the_graph():
    weight, gradient = keras.Variable([1.0]), tf.constant([3.0])
    optimizer = optimization.AdamWeightDecay(0.5, gradient_clip_norm=1.0)
    optimizer.build([weight])

    @tf.function
    def step():
        with selection.training_scope(KernelMode.NATIVE):
            optimizer.apply([gradient], [weight])

    step()

    np.testing.assert_allclose(weight.numpy(), [0.5], rtol=1e-5)
