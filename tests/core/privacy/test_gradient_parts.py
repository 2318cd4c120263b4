"""Norms and sums of gradients in each of their forms, against the gradients laid out."""

import numpy as np
import pytest
import tensorflow as tf

from quintain.core.privacy import gradient_parts

GENERATOR = np.random.default_rng(1)
KERNEL = tf.Variable(GENERATOR.normal(size=[4, 3]).astype(np.float32))
TABLE = tf.Variable(GENERATOR.normal(size=[6, 3]).astype(np.float32))
WEIGHTS = np.array([0.5, 0.0, 2.0], np.float32)
VECTORS = GENERATOR.normal(size=[3, 1, 4]).astype(np.float32)
SEQUENCES = GENERATOR.normal(size=[3, 5, 4]).astype(np.float32)
TOKENS = np.array([[0, 1, 2, 1], [3, 3, 3, 3], [5, 4, 0, 1]], np.int32)


def use_kernel(row):
    return tf.reduce_sum(tf.sin(tf.matmul(row, KERNEL)))


def use_turned_kernel(row):
    return tf.reduce_sum(tf.sin(tf.matmul(KERNEL, row, transpose_a=True, transpose_b=True)))


def use_table(row):
    return tf.reduce_sum(tf.sin(3.0 * tf.gather(TABLE, row)))


def use_directly(row):
    return tf.reduce_sum(tf.sin(KERNEL) * row[0, 0])


@pytest.mark.parametrize(
    ("function", "variable", "rows", "kind"),
    [
        (use_kernel, KERNEL, VECTORS, "product"),
        (use_kernel, KERNEL, SEQUENCES, "product"),
        (use_turned_kernel, KERNEL, SEQUENCES, "product"),
        (use_table, TABLE, TOKENS, "rows"),
        (use_directly, KERNEL, VECTORS, "dense"),
    ],
    ids=["vector", "sequence", "turned", "embedding", "other"],
)
def test_norms_and_weighted_sums_are_those_of_the_gradients(function, variable, rows, kind):
    forms = []

    def differentiate(row):
        with tf.GradientTape() as tape:
            value = function(row)
        form = gradient_parts.SummedGradient(tape.gradient(value, variable), variable.shape)
        forms[:] = [form]
        return form.tensors, form.square()

    @tf.function(autograph=False)
    def compute():
        tensors, squares = tf.vectorized_map(differentiate, tf.constant(rows))
        is_used = tf.constant([True, False, True])
        return forms[0].sum(tensors, tf.constant(WEIGHTS), is_used), squares

    total, squares = compute()

    gradients = []
    for row in rows:
        with tf.GradientTape() as tape:
            value = function(tf.constant(row))
        gradients.append(tf.convert_to_tensor(tape.gradient(value, variable)).numpy())
    assert forms[0].kind == kind
    np.testing.assert_allclose(squares, [np.sum(part**2) for part in gradients], rtol=1e-5)
    np.testing.assert_allclose(total, 0.5 * gradients[0] + 2.0 * gradients[2], rtol=1e-5, atol=1e-6)


def test_examples_that_are_not_used_may_be_nan():
    @tf.function
    def compute(rows):
        form = gradient_parts.SummedGradient(rows[0] + 1.0, [2])
        return form.sum([rows], tf.constant([1.0, 0.0]), tf.constant([True, False]))

    total = compute(tf.constant([[1.0, 2.0], [np.nan, np.inf]]))

    assert total.numpy().tolist() == [1.0, 2.0]
