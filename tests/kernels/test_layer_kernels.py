"""Kernels of the Transformer's layers against TensorFlow's operations and finite differences."""

import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import (
    attention_weights,
    feed_forward,
    library,
    modes,
    residual_norm,
    selection,
    sources,
)
from quintain.kernels import dropout as dropout_kernel
from quintain.nlp.modeling import activations, layers
from quintain.nlp.modeling.layers import dropout as dropout_layer
from quintain.nlp.modeling.layers import layer_normalization

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)

SEED = tf.constant([3, 41], tf.int64)
TYPES = [tf.float32, tf.bfloat16]
BOUNDS = {tf.float32: 3e-6, tf.bfloat16: 2**-7}
"""Largest difference, as a share of the largest number: of two roundings to the type."""


def draw_numbers(*shape: int, dtype: tf.DType = tf.float32, seed: int = 0) -> tf.Tensor:
    """Returns normal numbers, one of them tiny and one large where there are several."""
    numbers = np.random.default_rng(seed).normal(size=shape)
    if numbers.size > 2:
        numbers.flat[1], numbers.flat[2] = 1e-30, 30.0
    return tf.cast(tf.constant(numbers), dtype)


def make_draw(rate: float) -> dropout_kernel.Draw:
    """Returns a draw of a seed."""
    layer = dropout_layer.Dropout(rate)
    return layer.make_draw(SEED)


def differentiate(compute: Callable[..., Any], *given: tf.Tensor) -> list[tf.Tensor]:
    """Returns the result and the gradients of `given`, whose upstream is drawn."""
    with tf.GradientTape() as tape:
        tape.watch(given)
        result = compute(*given)
    upstream = draw_numbers(*result.shape, dtype=result.dtype, seed=9)
    return [result, *tape.gradient(result, given, output_gradients=upstream)]


def assert_close(found: list[tf.Tensor], expected: list[tf.Tensor], bound: float) -> None:
    """Compares tensors by the largest difference, and where they are not finite."""
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        a, b = (np.asarray(tf.cast(one, tf.float64)) for one in (ours, theirs))
        largest = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        np.testing.assert_allclose(a, b, rtol=0.0, atol=bound * largest)


def drop_as_layers_do(rate: float) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the dropout of TensorFlow's operations with the same seed."""
    layer = dropout_layer.Dropout(rate)
    return lambda x: layer.drop_plainly(x, SEED)


@pytest.mark.parametrize(
    ("shape", "rate", "dtype"),
    [
        ((2, 3, 129, 33), 0.1, tf.bfloat16),
        ((2, 3, 129, 33), 0.003, tf.float32),
        ((129, 33), 0.9999, tf.bfloat16),
        ((1,), 0.5, tf.float32),
        ((0, 4), 0.1, tf.float32),
    ],
)
def test_dropout_drops_the_same_numbers_as_tensorflow(
    shape: tuple[int, ...], rate: float, dtype: tf.DType
) -> None:
    x = draw_numbers(*shape, dtype=dtype)

    ours = differentiate(lambda x: dropout_kernel.drop(x, make_draw(rate)), x)

    theirs = differentiate(drop_as_layers_do(rate), x)
    assert_close(ours, theirs, 0.0)


@pytest.mark.parametrize(("dtype", "residual_type"), list(itertools.product(TYPES, TYPES)))
def test_dropout_is_added_to_a_residual(dtype: tf.DType, residual_type: tf.DType) -> None:
    x, residual = draw_numbers(9, 37, dtype=dtype), draw_numbers(9, 37, dtype=residual_type)

    ours = differentiate(
        lambda x, residual: dropout_kernel.drop(x, make_draw(0.1), residual), x, residual
    )

    plain = drop_as_layers_do(0.1)
    theirs = differentiate(lambda x, r: r + tf.cast(plain(x), r.dtype), x, residual)
    coarser = tf.bfloat16 if tf.bfloat16 in (dtype, residual_type) else tf.float32
    assert_close(ours, theirs, BOUNDS[coarser])


NORM_TYPES = [
    (tf.float32, tf.float32, tf.float32),
    (tf.float32, tf.float32, tf.bfloat16),
    (tf.float32, tf.bfloat16, tf.float32),
    (tf.float32, tf.bfloat16, tf.bfloat16),
    (tf.bfloat16, tf.bfloat16, tf.float32),
    (tf.bfloat16, tf.bfloat16, tf.bfloat16),
]


@pytest.mark.parametrize(
    ("shape", "types", "rate"),
    [
        *(((131, 70), types, 0.1) for types in NORM_TYPES),
        ((3, 5, 33), NORM_TYPES[0], None),
        ((0, 8), NORM_TYPES[-1], 0.1),
    ],
)
def test_sum_and_its_norm_are_those_of_the_layers(
    shape: tuple[int, ...], types: tuple[tf.DType, ...], rate: float | None
) -> None:
    total_type, dtype, output_type = types
    x, residual = draw_numbers(*shape, dtype=dtype), draw_numbers(*shape, dtype=total_type, seed=1)
    gamma, beta = draw_numbers(shape[-1], seed=2), draw_numbers(shape[-1], seed=3)
    plain = drop_as_layers_do(rate) if rate else lambda x: x
    draw = make_draw(rate) if rate else None
    weights = [draw_numbers(*shape, seed=seed) for seed in (4, 5)]

    def mix(total: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return tf.cast(total, tf.float32) * weights[0] + tf.cast(outputs, tf.float32) * weights[1]

    def compute_ours(x: tf.Tensor, r: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
        options = {"epsilon": 1e-3, "dtype": output_type, "residual": r, "draw": draw}
        return mix(*residual_norm.add_and_normalise(x, gamma, beta, **options))

    def compute_theirs(x: tf.Tensor, r: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
        total = r + tf.cast(plain(x), r.dtype)
        options = {"epsilon": 1e-3, "dtype": output_type}
        return mix(total, layer_normalization.normalise_plainly(total, gamma, beta, **options))

    ours = differentiate(compute_ours, x, residual, gamma, beta)

    theirs = differentiate(compute_theirs, x, residual, gamma, beta)
    # A row of few numbers may be nearly constant: its norm multiplies the rounding of the sum.
    bound = 3e-5 if types[1] == tf.float32 else 2**-6
    assert_close(ours, theirs, bound)


@pytest.mark.parametrize(
    ("shape", "dtype", "is_gelu"),
    [
        *(((200, 16, 33), *kind) for kind in itertools.product(TYPES, [False, True])),
        ((0, 2, 4), tf.float32, False),
    ],
)
def test_expansion_is_that_of_the_layers(
    shape: tuple[int, int, int], dtype: tf.DType, is_gelu: bool
) -> None:
    rows, width, inner = shape
    given = (
        draw_numbers(rows, width, dtype=dtype),
        draw_numbers(width, inner, dtype=dtype, seed=1),
        draw_numbers(inner, dtype=dtype, seed=2),
    )
    plain = drop_as_layers_do(0.1)
    activation = activations.approximate_gelu if is_gelu else tf.nn.relu

    ours = differentiate(
        lambda *given: feed_forward.expand(*given, is_gelu=is_gelu, draw=make_draw(0.1)), *given
    )

    theirs = differentiate(lambda x, w, b: plain(activation(tf.matmul(x, w) + b)), *given)
    # The sum over rows, the last, is added up in bfloat16 by TensorFlow.
    bound = BOUNDS[dtype] if dtype == tf.float32 else 2**-5
    assert_close(ours, theirs, bound)


@pytest.mark.parametrize(
    ("shape", "bias_shape", "rate", "dtype"),
    [
        ((2, 3, 5, 7), (2, 1, 5, 7), 0.1, tf.bfloat16),
        ((3, 2, 48, 48), (1, 1, 48, 48), 0.1, tf.bfloat16),
        ((3, 2, 48, 48), (1, 1, 48, 48), None, tf.bfloat16),
        ((2, 2, 3, 50), (2, 1, 1, 50), 0.1, tf.float32),
        ((1, 2, 2, 2500), None, 0.1, tf.float32),
        ((2, 2, 4, 3), (2, 2, 4, 1), None, tf.float32),
        ((0, 2, 3, 4), (1, 1, 3, 4), 0.1, tf.float32),
        ((2, 1, 3, 0), None, 0.1, tf.float32),
    ],
)
def test_attention_weights_are_those_of_the_layers(
    shape: tuple[int, ...], bias_shape: tuple[int, ...] | None, rate: float | None, dtype: tf.DType
) -> None:
    scores = draw_numbers(*shape, dtype=dtype)
    bias = None
    if bias_shape:
        masked = np.random.default_rng(1).random(bias_shape) < 0.3
        masked[..., :1, :] |= bool(rate)  # A row where all is masked.
        bias = tf.cast(tf.where(masked, -1e9, 0.0), dtype)
    plain = drop_as_layers_do(rate) if rate else lambda x: x
    draw = make_draw(rate) if rate else None

    given = [scores] if bias is None else [scores, bias]

    def compute_ours(x: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
        return attention_weights.weigh(x, bias, scale=0.125, draw=draw)

    def compute_theirs(x: tf.Tensor, *biases: tf.Tensor) -> tf.Tensor:
        shifted = tf.add_n(
            [
                tf.cast(x, tf.float32) * 0.125,
                *(tf.broadcast_to(tf.cast(one, tf.float32), tf.shape(x)) for one in biases),
            ]
        )
        return plain(tf.cast(tf.nn.softmax(shifted), dtype))

    ours, theirs = differentiate(compute_ours, *given), differentiate(compute_theirs, *given)
    if dtype == tf.float32:
        assert_close(ours[:2], theirs[:2], BOUNDS[dtype])
        for found, expected in zip(ours[2:], theirs[2:], strict=True):
            largest = np.abs(expected).max(initial=1.0)  # Of one for all keys it is zero.
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=BOUNDS[dtype] * largest)
        return
    assert_close(ours[:1], theirs[:1], BOUNDS[dtype])
    # The gradient is scale * w * (u - m), m the mean of u weighted by w, which is rounded. With
    # U the largest u, roundings by 2 ** -9 err by: w 2 U, m U, the sum that it is divided by U,
    # the result 2 U; the result of TensorFlow's 2 U. Together 8 U times 2 ** -9.
    largest = np.abs(tf.cast(draw_numbers(*shape, dtype=dtype, seed=9), tf.float32)).max(initial=0)
    weights = tf.nn.softmax(
        tf.cast(scores, tf.float32) * 0.125 + (0 if bias is None else tf.cast(bias, tf.float32))
    )
    bounds = 0.125 * weights * largest * 2**-6 / (1 - (rate or 0)) + 1e-30
    errors = tf.abs(tf.cast(ours[1], tf.float32) - tf.cast(theirs[1], tf.float32))
    assert (errors <= bounds).numpy().all()
    axes = [axis for axis, size in enumerate(bias_shape) if size == 1]
    expected = tf.cast(theirs[2], tf.float32)
    summed = tf.reduce_sum(bounds / 0.125, axis=axes, keepdims=True) + 2**-8 * tf.abs(expected)
    assert (tf.abs(tf.cast(ours[2], tf.float32) - expected) <= summed).numpy().all()


def check_by_differences(compute: Callable[..., tf.Tensor], *given: tf.Tensor) -> None:
    """Compares gradients with central differences."""
    found, theirs = tf.test.compute_gradient(compute, list(given), delta=1e-2)
    for ours, expected in zip(found, theirs, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0.0, atol=4e-3 * np.abs(expected).max())


def test_gradients_are_those_of_finite_differences() -> None:
    random = np.random.default_rng(0)
    sizes = [(3, 5), (3, 5), (5,), (5,), (5, 4), (4,)]
    numbers = [tf.constant(random.normal(size=size).astype("float32")) for size in sizes]
    x, residual, gamma, beta, kernel, bias = numbers
    draw = make_draw(0.4)

    def normalise(x: tf.Tensor, r: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
        options = {"epsilon": 0.5, "dtype": tf.float32, "residual": r, "draw": draw}
        return residual_norm.normalise(x, gamma, beta, **options)

    check_by_differences(normalise, x, residual, gamma, beta)
    check_by_differences(
        lambda *given: feed_forward.expand(*given, is_gelu=True, draw=draw), x, kernel, bias
    )
    check_by_differences(
        lambda s, b: attention_weights.weigh(s, b, scale=0.5, draw=draw),
        tf.stack([x, residual])[:, :, tf.newaxis],
        x[tf.newaxis, :, tf.newaxis],
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e-42])
def test_extreme_numbers_give_what_tensorflow_gives(value: float) -> None:
    x = tf.constant(np.where(np.arange(30).reshape(2, 15) == 4, value, 0.5).astype("float32"))
    gamma = tf.ones([15])

    norm = residual_norm.normalise(x, gamma, gamma, epsilon=1e-6, dtype=tf.float32)
    weights = attention_weights.weigh(x[tf.newaxis, tf.newaxis], None, scale=1.0, draw=None)
    kernel = tf.eye(15)
    relu = feed_forward.expand(x, kernel, gamma * 0, is_gelu=False, draw=make_draw(0.0))

    plain = layer_normalization.normalise_plainly
    assert_close([norm], [plain(x, gamma, gamma, epsilon=1e-6, dtype=tf.float32)], 1e-6)
    found, expected = np.asarray(weights)[0, 0], np.asarray(tf.nn.softmax(x))
    is_finite = np.isfinite(expected).all(axis=1)  # Of the other rows TensorFlow leaves some zeros.
    np.testing.assert_allclose(found[is_finite], expected[is_finite], rtol=1e-6)
    assert np.isnan(found[~is_finite]).all()
    product = tf.matmul(x, kernel)
    clipped = tf.where(tf.math.is_nan(product), product, tf.nn.relu(product))
    assert_close([relu], [clipped], 0.0)


@pytest.mark.parametrize("dtype", TYPES)
def test_gelu_of_extreme_numbers_is_that_of_the_layers(dtype: tf.DType) -> None:
    x = tf.cast([[-1e30, -100.0, -9.0, -1e-30, 0.0, 1e-30, 9.0, 100.0, 1e18, np.nan]], dtype)
    eye, bias = tf.eye(1, dtype=dtype), tf.zeros([1], dtype)

    ours = differentiate(
        lambda x: feed_forward.expand(x, eye, bias, is_gelu=True, draw=make_draw(0.0)),
        tf.transpose(x),
    )

    theirs = tf.transpose(activations.approximate_gelu(x))
    np.testing.assert_allclose(
        tf.cast(ours[0], tf.float32), tf.cast(theirs, tf.float32), rtol=1e-2, atol=1e-5
    )
    assert np.isfinite(tf.cast(ours[1], tf.float32)[:-1]).all()


def test_sums_of_rows() -> None:
    rows = draw_numbers(321, 19, dtype=tf.bfloat16)

    sums = feed_forward.sum_rows(rows)

    assert_close([sums], [tf.cast(tf.reduce_sum(tf.cast(rows, tf.float32), 0), tf.bfloat16)], 2**-8)


@pytest.mark.parametrize("isa", [1, 2])
def test_older_instruction_sets_give_the_same_within_rounding(isa: int) -> None:
    scores, x = draw_numbers(2, 3, 5, 70), draw_numbers(30, 70)
    given = (x, draw_numbers(70, 19, seed=1), draw_numbers(19, seed=2))
    limit = library.load().functions.quintain_limit_isa

    def compute() -> list[tf.Tensor]:
        draw = make_draw(0.3)
        weigh = lambda s: attention_weights.weigh(s, None, scale=0.5, draw=draw)  # noqa: E731
        expand = lambda *given: feed_forward.expand(*given, is_gelu=True, draw=draw)  # noqa: E731
        return differentiate(weigh, scores) + differentiate(expand, *given)

    newest = compute()
    limit(isa)
    try:
        assert_close(compute(), newest, 1e-6)
    finally:
        limit(len(sources.INSTRUCTION_SETS))


def train_blocks(
    policy: str, mode: modes.KernelMode, *, norm_first: bool, seed: int = 0
) -> list[tf.Tensor]:
    """Returns the gradients of an encoder's and a decoder's block, started alike each time."""
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(policy)  # Also that of their parts.
    try:
        return _train_blocks(policy, mode, norm_first=norm_first)
    finally:
        keras.config.set_dtype_policy("float32")


def _train_blocks(policy: str, mode: modes.KernelMode, *, norm_first: bool) -> list[tf.Tensor]:
    options = {"use_bias": True, "norm_first": norm_first, "dtype": policy}
    encoder = layers.TransformerEncoderBlock(
        *(2, 24, activations.approximate_gelu),
        **options,
        output_dropout=0.1,
        attention_dropout=0.2,
        inner_dropout=0.3,
    )
    decoder = layers.TransformerDecoderBlock(
        *(2, 24, "relu"),
        **options,
        dropout_rate=0.1,
        attention_dropout_rate=0.2,
        intermediate_dropout=0.3,
    )
    source, target = draw_numbers(3, 5, 8) / 8, draw_numbers(3, 4, 8, seed=1) / 8
    mask, causal = tf.ones([3, 1, 5]), tf.linalg.band_part(tf.ones([1, 4, 4]), -1, 0)
    encoder.build([source.shape, mask.shape])
    decoder.build(source.shape)
    weights = [*encoder.trainable_variables, *decoder.trainable_variables]
    with selection.training_scope(mode), tf.GradientTape() as tape:
        memory = encoder([source, mask], training=True)
        output, _ = decoder([target, memory, mask, causal], training=True)
        loss = tf.reduce_sum(tf.square(tf.cast(output, tf.float32)) * draw_numbers(3, 4, 8))
    return tape.gradient(loss, [weight.value for weight in weights])


def measure_distance(some: list[tf.Tensor], others: list[tf.Tensor]) -> float:
    """Returns how far tensors are from others, as a share of their size."""
    difference = tf.linalg.global_norm([a - b for a, b in zip(some, others, strict=True)])
    return float(difference / tf.linalg.global_norm(others))


@pytest.mark.slow
@pytest.mark.parametrize("norm_first", [True, False])
def test_blocks_are_trained_alike_with_and_without_native_kernels(norm_first: bool) -> None:
    native, plain = modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW
    exact = train_blocks("float32", plain, norm_first=norm_first)

    found = train_blocks("float32", native, norm_first=norm_first)

    assert measure_distance(found, exact) < 1e-5


@pytest.mark.long("Further cases of a test of which some run every time")
@pytest.mark.slow
@pytest.mark.parametrize("norm_first", [True, False])
def test_blocks_in_bfloat16_are_as_near_to_float32_as_tensorflows(norm_first: bool) -> None:
    """One small block says little: where rounding changes a sign, it loses ReLU's gradient."""
    native, plain = modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW
    errors: dict[modes.KernelMode, list[float]] = {native: [], plain: []}
    for seed in range(7):
        exact = train_blocks("float32", plain, norm_first=norm_first, seed=seed)
        for mode, found in errors.items():
            rounded = train_blocks("mixed_bfloat16", mode, norm_first=norm_first, seed=seed)
            found.append(measure_distance(rounded, exact))

    assert 0 < np.median(errors[native]) < 1.25 * np.median(errors[plain])
