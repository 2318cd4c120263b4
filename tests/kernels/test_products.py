"""Products of matrices in bfloat16 against NumPy and TensorFlow's."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import library, modes, products, selection, sources
from quintain.nlp.modeling.layers import projection
from tests.kernels import native_steps

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)

SHAPES = [(1, 1, 1), (13, 7, 33), (25, 36, 31), (129, 512, 96), (0, 5, 3), (5, 0, 3)]
BOUND = 2**-8
"""Largest difference, as a share of the largest number: of one rounding to bfloat16."""


@pytest.fixture(params=enumerate(sources.INSTRUCTION_SETS, 1), ids=lambda one: one[1])
def functions(request):
    found = library.load().functions
    if found.quintain_limit_isa(request.param[0]) != request.param[0]:
        found.quintain_limit_isa(len(sources.INSTRUCTION_SETS))
        pytest.skip("The processor is older.")
    yield found
    found.quintain_limit_isa(len(sources.INSTRUCTION_SETS))


@pytest.fixture
def native(monkeypatch):
    monkeypatch.setattr(products, "can_multiply", lambda left: selection.is_native())
    with selection.training_scope(modes.KernelMode.NATIVE):
        yield


def draw(*shape, dtype=tf.bfloat16, seed=0):
    numbers = np.random.default_rng(seed).normal(size=shape).astype("float32")
    return tf.cast(tf.constant(numbers), dtype)


def to_numpy(tensor):
    return np.asarray(tf.cast(tf.cast(tensor, tf.bfloat16), tf.float64))


def assert_close(found, expected):
    largest = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=0.0, atol=BOUND * largest)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float32], ids=["bfloat16", "float32"])
@pytest.mark.parametrize("is_turned", [*itertools.product([False, True], repeat=2)])
def test_products_are_those_of_float64(functions, is_turned, dtype):
    left_turned, right_turned = is_turned
    for rows, inputs, outputs in SHAPES:
        left, right = draw(rows, inputs), draw(inputs, outputs, dtype=dtype, seed=1)
        bias = draw(outputs, seed=2)

        found = products.product(
            tf.transpose(left) if left_turned else left,
            tf.transpose(right) if right_turned else right,
            bias,
            transpose_left=left_turned,
            transpose_right=right_turned,
        )

        assert_close(found, to_numpy(left) @ to_numpy(right) + to_numpy(bias))


def test_gradients_of_weights_come_with_the_sums_of_rows(functions):
    for rows, inputs, outputs in SHAPES:
        left, right = draw(rows, inputs), draw(rows, outputs, seed=1)

        product, sums = products.product_and_sums(left, right)

        assert_close(product, to_numpy(left).T @ to_numpy(right))
        assert_close(sums, to_numpy(right).sum(axis=0))


def test_rows_are_the_same_to_the_bit_among_others_and_for_any_work(functions):
    left, right = draw(700, 514), draw(514, 97, dtype=tf.float32, seed=1)
    whole = products.product(left, right)

    alone = tf.concat([products.product(left[n : n + 1], right) for n in (0, 11, 699)], axis=0)

    np.testing.assert_array_equal(to_numpy(alone), to_numpy(tf.gather(whole, [0, 11, 699])))
    np.testing.assert_array_equal(to_numpy(products.product(left, right)), to_numpy(whole))


def test_nan_stays_in_its_row(functions):
    left = tf.tensor_scatter_nd_update(draw(14, 7), [[3, 6]], tf.constant([np.nan], tf.bfloat16))

    found = to_numpy(products.product(left, draw(7, 33, seed=1)))

    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()


@pytest.mark.parametrize("is_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("use_bias", [False, True], ids=["plain", "bias"])
def test_a_projection_in_bfloat16_has_the_gradients_of_float64(native, use_bias, is_graph):
    layer = projection.Projection(9, use_bias=use_bias, dtype="mixed_bfloat16")
    layer.build((None, 6))
    inputs, upstream = draw(5, 6), draw(5, 9, seed=1)

    def differentiate():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs)
        variables = [weight.value for weight in layer.trainable_variables]
        return outputs, *tape.gradient(outputs, [inputs, *variables], output_gradients=upstream)

    found = (native_steps.trace(differentiate) if is_graph else differentiate)()
    with selection.plain_scope():
        of_tensorflow = differentiate()

    # TensorFlow's own numbers are no oracle: without AVX-512 it rounds more than once.
    kernel = to_numpy(layer.kernel)
    bias = to_numpy(layer.bias) if use_bias else 0.0
    sums = [to_numpy(upstream).sum(axis=0)] if use_bias else []
    expected = (
        to_numpy(inputs) @ kernel + bias,
        to_numpy(upstream) @ kernel.T,
        to_numpy(inputs).T @ to_numpy(upstream),
        *sums,
    )
    assert [one.dtype for one in found] == [one.dtype for one in of_tensorflow]
    for ours, exact in zip(found, expected, strict=True):
        assert_close(ours, exact)


def test_weights_that_were_cast_are_read_as_they_were(native):
    weights = tf.Variable(draw(6, 9, dtype=tf.float32))

    @tf.function
    def compute(inputs):
        return products.multiply(inputs, tf.cast(weights, tf.bfloat16))

    operations = compute.get_concrete_function(draw(5, 6)).graph.get_operations()
    (product,) = [one for one in operations if one.type == "QuintainProduct"]
    assert product.inputs[1].dtype == tf.float32


def test_the_rows_of_a_table_are_multiplied_with_gradients(native):
    inputs, table, upstream = draw(5, 6), draw(11, 6, seed=1), draw(5, 11, seed=2)
    with tf.GradientTape() as tape:
        tape.watch([inputs, table])
        found = projection.multiply_by_table(inputs, table)

    gradients = tape.gradient(found, [inputs, table], output_gradients=upstream)

    assert_close(found, to_numpy(inputs) @ to_numpy(table).T)
    assert_close(gradients[0], to_numpy(upstream) @ to_numpy(table))
    assert_close(gradients[1], to_numpy(upstream).T @ to_numpy(inputs))


def test_shapes_that_do_not_fit_are_errors():
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many inputs"):
        products.product(draw(2, 3), draw(4, 5))
    with pytest.raises(tf.errors.InvalidArgumentError, match="bias: got 4 numbers, expected 5"):
        products.product(draw(2, 3), draw(3, 5), draw(4))
