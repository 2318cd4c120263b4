"""The kernel of whole attention against TensorFlow's operations and finite differences."""

import contextlib
import pathlib
import resource
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import attention, library, modes, selection, sources
from quintain.nlp.modeling import layers
from quintain.nlp.modeling.layers import dropout, fused_attention
from tests.kernels import native_steps

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)

SEED = tf.constant([3, 41], tf.int64)
NEWEST = "avx2" if library.find_reason() else library.load().instruction_set
SETS = list(range(1, 2 + list(sources.INSTRUCTION_SETS).index(NEWEST)))


@pytest.fixture(name="isa", params=SETS)
def _limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a test with every instruction set of this machine."""
    limit = library.load().functions.quintain_limit_isa
    limit(request.param)
    yield
    limit(len(sources.INSTRUCTION_SETS))


def draw_numbers(*shape: int, dtype: tf.DType = tf.float32, seed: int = 0) -> tf.Tensor:
    return tf.cast(np.random.default_rng(seed).normal(size=shape), dtype)


def attend(
    queries: tf.Tensor, memory: tf.Tensor | None, bias: Any, *, num_heads: int, rate: float
) -> tf.Tensor:
    draw = dropout.Dropout(rate).make_draw(SEED) if rate else None
    options = {"num_heads": num_heads, "scale": 0.25, "draw": draw}
    return attention.attend(queries, memory, bias, **options)


def attend_plainly(
    queries: tf.Tensor, memory: tf.Tensor | None, bias: Any, *, num_heads: int, rate: float
) -> tf.Tensor:
    """Does the same by TensorFlow's operations, in float32 or wider."""
    joint = [queries] if memory is None else [queries, *tf.split(memory, 2, axis=-1)]
    parts = tf.split(queries, 3, axis=-1) if memory is None else joint
    wide = tf.float64 if queries.dtype == tf.float64 else tf.float32

    def split(x: tf.Tensor) -> tf.Tensor:
        by_heads = [x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads]
        return tf.transpose(tf.reshape(tf.cast(x, wide), by_heads), [0, 2, 1, 3])

    q, k, v = (split(part) for part in parts)
    scores = tf.matmul(q, k, transpose_b=True) * 0.25
    weights = tf.nn.softmax(scores if bias is None else scores + tf.cast(bias, wide))
    weights = dropout.Dropout(rate).drop_plainly(weights, SEED) if rate else weights
    mixed = tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3])
    return tf.cast(tf.reshape(mixed, parts[0].shape), queries.dtype)


def widen(given: list[tf.Tensor | None]) -> list[tf.Tensor | None]:
    return [None if one is None else tf.cast(one, tf.float64) for one in given]


def differentiate(
    compute: Any, given: list[tf.Tensor | None], *, drawn: tf.DType = tf.float32, **options: Any
) -> list[Any]:
    """Returns the result and the gradients of what is not None, as float64.

    The gradient of the result has numbers of the type `drawn`.
    """
    watched = [one for one in given if one is not None]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        result = compute(*given, **options)
    upstream = tf.cast(draw_numbers(*result.shape, dtype=drawn, seed=9), result.dtype)
    found = [result, *tape.gradient(result, watched, output_gradients=upstream)]
    assert [one.dtype for one in found] == [result.dtype] * len(found)
    return [tf.cast(one, tf.float64).numpy() for one in found]


# B, Q, K, H, size of a head, dropout, shape of the bias; K is None where keys lie beside queries.
CASES = [
    (2, 48, None, 4, 64, 0.1, (2, 1, 1, 48)),
    (2, 5, None, 2, 4, 0.0, None),
    (2, 131, 77, 3, 7, 0.3, (1, 1, 131, 77)),
    (1, 2, 3, 1, 5, 0.0, (1, 1, 1, 1)),
    (3, 33, 1, 2, 65, 0.003, (3, 2, 33, 1)),
    (2, 3, 2100, 1, 33, 0.1, (77,)),
    (1, 210, None, 2, 16, 0.1, (210, 210)),
    (5, 131, 7, 3, 7, 0.1, (1, 3, 131, 7)),
    (4, 10, 11, 3, 8, 0.2, (1, 3, 1, 11)),
    (3, 4, 5, 2, 0, 0.1, (3, 1, 1, 5)),
    (2, 4, 0, 2, 3, 0.1, None),
    (2, 0, 4, 2, 3, 0.1, None),
    (0, 4, None, 2, 3, 0.1, (2, 4, 4)),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16], ids=lambda one: one.name)
def test_outputs_and_gradients_are_those_of_tensorflow(isa: None, dtype: tf.DType) -> None:
    """TensorFlow computes in float64: its softmax is not exact in float32 on every processor."""
    for examples, queries, keys, heads, size, rate, bias_shape in CASES:
        width, shape = heads * size, (2100,) if bias_shape == (77,) else bias_shape
        queries_width = width * (3 if keys is None else 1)
        given = [
            draw_numbers(examples, queries, queries_width, dtype=dtype),
            None if keys is None else draw_numbers(examples, keys, 2 * width, dtype=dtype, seed=1),
            None if shape is None else draw_numbers(*shape, dtype=dtype, seed=2),
        ]

        options = {"num_heads": heads, "rate": rate, "drawn": dtype}
        ours = differentiate(attend, given, **options)

        theirs = differentiate(attend_plainly, widen(given), **options)
        bound = 2e-6 if dtype == tf.float32 else 2**-7
        for found, expected in zip(ours, theirs, strict=True):
            assert found.shape == expected.shape
            # The gradient of a bias that all keys have is zero.
            least = 1.0 if expected.shape == shape else 0.0
            largest = np.abs(expected).max(initial=least)
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=bound * largest)


def test_gradients_are_those_of_finite_differences() -> None:
    given = [draw_numbers(2, 3, 4), draw_numbers(2, 5, 8, seed=1), draw_numbers(2, 3, 5, seed=2)]
    options = {"num_heads": 2, "rate": 0.3}
    mixed, *gradients = differentiate(attend, given, **options)
    upstream = draw_numbers(*mixed.shape, seed=9).numpy().astype(np.float64)

    for number, gradient in enumerate(gradients):
        exact = [tf.cast(one, tf.float64) for one in given]
        for place in np.ndindex(gradient.shape):
            values = []
            for step in (1e-5, -1e-5):
                moved = exact[number].numpy()
                moved[place] += step
                tensors = [*exact[:number], tf.constant(moved), *exact[number + 1 :]]
                values.append(np.sum(attend_plainly(*tensors, **options) * upstream))
            assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-5)


def test_masked_queries_and_strange_numbers_stay_in_their_rows(isa: None) -> None:
    joint = draw_numbers(2, 6, 24).numpy()
    joint[0, 1, 3] = np.nan  # of a query of the first head
    joint[1, 2, 20] = np.inf  # of a value of the second head
    masked = np.zeros([2, 1, 6, 6], np.float32)
    masked[0, :, 4] = -1e9

    mixed = attend(tf.constant(joint), None, tf.constant(masked), num_heads=2, rate=0.0).numpy()

    is_finite = np.isfinite(mixed)
    assert not is_finite[0, 1, :4].any()
    assert not is_finite[1, :, 4].any()
    assert is_finite.sum() == mixed.size - 4 - 6
    # What is masked as a whole is mixed evenly.
    np.testing.assert_allclose(mixed[0, 4], joint[0, :, 16:].mean(axis=0), rtol=1e-5)


def test_rows_of_infinite_bias_are_nan() -> None:
    bias = tf.constant([[[[0.0, 0.0], [-np.inf, -np.inf]]]])

    mixed = attend(draw_numbers(1, 2, 12), None, bias, num_heads=2, rate=0.0).numpy()

    assert np.isfinite(mixed[0, 0]).all()
    assert np.isnan(mixed[0, 1]).all()


@pytest.mark.parametrize(
    ("queries", "memory", "bias", "named"),
    [
        ((2, 3, 8), (2, 5, 15), None, r"\[B, K, 2 \* D\]"),
        ((2, 3, 8), (1, 5, 16), None, r"\[1,5,16\]"),
        ((2, 3, 9), (2, 5, 18), None, "2 heads divide D"),
        ((2, 3, 16), None, None, r"\[2,3,16\]"),
        ((2, 3, 8), (2, 5, 16), (1, 1, 3, 4), r"\[2,2,3,5\]"),
    ],
)
def test_shapes_that_do_not_fit_are_named(queries, memory, bias, named) -> None:
    given = [None if one is None else draw_numbers(*one) for one in (queries, memory, bias)]

    with pytest.raises(tf.errors.InvalidArgumentError, match=named):
        attend(*given, num_heads=2, rate=0.0)


class HalvedAttention(fused_attention.SelfAttention):
    """Attention of a user's own."""

    def attend(self, *given: Any) -> tf.Tensor:
        """Halves what is mixed."""
        return super().attend(*given) / 2


def test_layers_of_ones_own_keep_their_way() -> None:
    x, found = draw_numbers(2, 3, 8), []
    for kind in (fused_attention.SelfAttention, HalvedAttention):
        layer = kind(2, 8, dropout_rate=0.0, use_bias=False, kernel_initializer="ones")
        with selection.training_scope(modes.KernelMode.NATIVE):
            found.append(layer(x, training=True))

    np.testing.assert_allclose(found[0] / 2, found[1], rtol=1e-5)


class SplittingAttention(fused_attention.CrossAttention):
    """A user's own that takes keys and values apart."""

    def call(self, inputs: tf.Tensor, memory: Any, *given: Any, **options: Any) -> tf.Tensor:
        """Halves the values."""
        keys, values = memory
        return super().call(inputs, (keys, values / 2), *given, **options)


def test_layers_of_ones_own_get_keys_and_values_apart() -> None:
    x, found = draw_numbers(2, 3, 8), []
    for kind in (fused_attention.CrossAttention, SplittingAttention):
        layer = kind(2, 8, dropout_rate=0.0, use_bias=False, kernel_initializer="ones")
        layer.build([2, 3, 8])
        step = native_steps.trace(
            lambda x, layer=layer: layer(x, layer.read_memory(x), training=True)
        )
        found.append(step(x))

    np.testing.assert_allclose(found[0] / 2, found[1], rtol=1e-5)


@pytest.mark.slow
def test_memory_grows_with_the_length_and_not_with_its_square() -> None:
    layer = layers.TransformerEncoderBlock(2, 8, "relu", attention_dropout=0.1)
    step = native_steps.trace(lambda x: tf.gradients(tf.reduce_sum(layer(x, training=True)), x))
    graph = step.get_concrete_function(tf.TensorSpec([1, 2048, 16])).graph

    shapes = [result.shape for op in graph.get_operations() for result in op.outputs]
    assert any("QuintainAttentionGradient" in op.type for op in graph.get_operations())
    assert not [shape for shape in shapes if shape.rank and shape.num_elements() == 2 * 2048**2]


@contextlib.contextmanager
def limit_memory(more_bytes: int) -> Iterator[None]:
    """Lets this process have no more than so much beyond what it has."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.slow
def test_memory_that_is_short_is_an_error_and_no_crash():
    queries, memory = draw_numbers(1, 1, 1), draw_numbers(1, 1 << 20, 2)  # 128 MiB to work with
    options = {"num_heads": 1, "rate": 0.0}

    with (
        limit_memory(64 << 20),
        pytest.raises(tf.errors.ResourceExhaustedError, match="QuintainAttention: there is no mem"),
    ):
        attend(queries, memory, None, **options)

    assert np.isfinite(attend(queries, memory, None, **options).numpy()).all()
