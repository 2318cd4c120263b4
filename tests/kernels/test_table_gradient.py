"""The gradient of a tied table of embeddings against TensorFlow's operations."""

import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import library, modes, selection
from quintain.optimization import dense_gradients

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)

NATIVE, PLAIN = modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW


def build_step(mode: modes.KernelMode, dtype: tf.DType, num_rows: int, width: int) -> tf.Variable:
    """Returns a function of two batches of ids that gives the gradient of a table.

    The table is multiplied as a whole in `dtype`, and looked up by both batches.
    """
    random = np.random.default_rng(0)
    table = tf.Variable(random.normal(size=(num_rows, width)), dtype=tf.float32)
    hidden = tf.constant(random.normal(size=(5, width)), dtype)
    upstream = tf.constant(random.normal(size=(5, num_rows)), dtype)
    weights = tf.constant(random.normal(size=(width,)), tf.float32)

    @tf.function(autograph=False)
    def step(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        with selection.training_scope(mode):
            with tf.GradientTape() as tape:
                logits = tf.matmul(hidden, tf.cast(tf.identity(table), dtype), transpose_b=True)
                total = tf.reduce_sum(tf.cast(logits * upstream, tf.float32))
                for ids in (first, second):
                    rows = tf.gather(tf.convert_to_tensor(table), ids)
                    scale = tf.cast(tf.range(1, tf.size(ids) + 1), tf.float32)
                    total += tf.reduce_sum(rows * weights * tf.reshape(scale, [*ids.shape, 1]))
            return dense_gradients.densify(tape.gradient(total, table), table)

    return step


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (200, 513)], ids=str)
def test_the_gradient_is_that_of_tensorflow_within_rounding(dtype, shape):
    random = np.random.default_rng(1)
    # Some rows come often, most never; one batch is empty in the smallest case.
    first = tf.constant(random.integers(0, (shape[0] + 1) // 2, size=(4, 6)), tf.int32)
    second = tf.constant(random.integers(0, shape[0], size=(shape[0] - 1, 2)), tf.int32)

    found, expected = (
        build_step(mode, dtype, *shape)(first, second).numpy() for mode in (NATIVE, PLAIN)
    )

    # Sums of at most 24 numbers, of those twice, in other orders.
    bound = 24 * np.finfo(np.float32).eps * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


def test_one_operation_reads_the_product_and_the_rows():
    step = build_step(NATIVE, tf.bfloat16, 50, 8)
    graph = step.get_concrete_function(tf.zeros([2, 3], tf.int32), tf.zeros([4], tf.int32)).graph

    (fused,) = (one for one in graph.get_operations() if one.type == "QuintainTableGradient")

    assert [one.dtype for one in fused.inputs] == [tf.bfloat16, tf.float32, tf.int64]
    assert "MatMul" in fused.inputs[0].op.type
    assert graph.outputs[0].op.inputs[0].op is fused


def run_kernel(dense: tf.Tensor, gradients: list, ids: list) -> np.ndarray:
    """Returns what the operation gives."""
    return library.get().quintain_table_gradient(dense=dense, gradients=gradients, ids=ids).numpy()


def test_nan_stays_in_its_row_and_negative_ids_are_left_out():
    found = run_kernel(tf.ones([4, 2]), [[np.nan, 1.0], [1.0, np.inf], [9.0, 9.0]], [2, 0, -1])

    np.testing.assert_array_equal(found, [[2, np.inf], [1, 1], [np.nan, 2], [1, 1]])


@pytest.mark.parametrize(
    ("gradients", "ids", "message"),
    [
        ([[1.0, 2.0]], [4], r"ids\[0\]: got 4, expected an integer below 4"),
        ([[1.0, 2.0]], [1, 2], r"got shapes \[4,2\], \[1,2\] and \[2\], expected \[V, D\]"),
        ([[1.0]], [1], "expected"),
    ],
)
def test_what_does_not_fit_is_an_error(gradients, ids, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run_kernel(tf.ones([4, 2]), gradients, ids)


def test_the_same_rows_give_the_same_bits_whatever_is_beside_them():
    random = np.random.default_rng(2)
    dense = tf.constant(random.normal(size=(3000, 40)), tf.float32)
    gradients, ids = random.normal(size=(500, 40)).astype("float32"), random.integers(0, 90, 500)

    whole = run_kernel(dense, gradients, ids)

    for first in (0, 30):
        alone = (ids >= first) & (ids < first + 30)
        part = run_kernel(dense[first : first + 30], gradients[alone], ids[alone] - first)
        np.testing.assert_array_equal(part, whole[first : first + 30])
