import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization import loss_scaling
from quintain.optimization.rules import adam, sgd


def test_norms_are_those_before_clipping_and_of_the_change(runner):
    weights = [keras.Variable([1.0, 1.0]), keras.Variable([[0.0]])]
    optimizer = sgd.SGD(0.5, global_clipnorm=1.0)
    optimizer.build(weights)
    sums = optimizer.track_norms()
    step = runner(lambda *gradients: optimizer.apply(list(gradients), weights))

    step(tf.constant([3.0, 0.0]), tf.constant([[4.0]]))
    step(tf.constant([0.3, 0.0]), tf.constant([[0.4]]))
    means = sums.take_means()

    assert means["gradient_norm"] == pytest.approx((5.0 + 0.5) / 2)
    assert means["update_norm"] == pytest.approx((0.5 * 1.0 + 0.5 * 0.5) / 2)
    assert sums.take_means() == {}


def test_rows_of_a_sparse_gradient_are_summed_first():
    table = keras.Variable(np.zeros((3, 1)))
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 2]), tf.constant([3, 1]))
    optimizer = sgd.SGD(1.0)
    sums = optimizer.track_norms()

    optimizer.apply([rows], [table])

    assert sums.take_means()["gradient_norm"] == pytest.approx(3.0)


def test_scaled_gradients_are_measured_unscaled():
    weight = keras.Variable([1.0])
    inner = sgd.SGD(1.0)
    sums = inner.track_norms()
    optimizer = loss_scaling.LossScaleOptimizer(inner, initial_scale=8.0)

    optimizer.apply([tf.constant([8.0])], [weight])

    assert sums.take_means()["gradient_norm"] == pytest.approx(1.0)


def test_an_optimizer_updates_the_same_with_and_without_norms(trained):
    plain, measured = adam.Adam(0.1), adam.Adam(0.1)
    measured.track_norms()

    for first, second in zip(trained(plain, 4), trained(measured, 4), strict=True):
        np.testing.assert_array_equal(first, second)
