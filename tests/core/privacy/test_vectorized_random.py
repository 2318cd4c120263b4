"""Draws of all examples at once are as good as one by one."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from quintain.core.privacy import vectorized_random


def draw(seeds, sampler):
    with vectorized_random.drawing_together():
        return tf.vectorized_map(
            lambda seed: sampler([200], seed), seeds, fallback_to_while_loop=False
        ).numpy()


@pytest.mark.parametrize(
    ("sampler", "distribution"),
    [
        (tf.random.stateless_uniform, stats.uniform()),
        (tf.random.stateless_normal, stats.norm()),
        (tf.random.stateless_truncated_normal, stats.truncnorm(-2, 2)),
    ],
)
def test_examples_get_independent_numbers_of_the_distribution(sampler, distribution):
    rows = draw(tf.constant([[1, 2], [3, 4], [5, 6]]), sampler)

    assert stats.kstest(rows.ravel(), distribution.cdf).pvalue > 1e-3
    shares = np.corrcoef(rows) - np.eye(3)
    assert np.abs(shares).max() < 4 / np.sqrt(200)


def test_same_seeds_give_the_same_numbers_and_others_others():
    one, again, other = (
        draw(tf.constant([[first, 0], [7, 7]]), tf.random.stateless_uniform) for first in (1, 1, 2)
    )

    np.testing.assert_array_equal(one, again)
    assert np.all(one != other)


def test_nothing_is_left_in_tensorflow():
    registry = vectorized_random.pfor._pfor_converter_registry
    before = set(registry)

    draw(tf.constant([[1, 2]]), tf.random.stateless_uniform)

    assert set(registry) == before
