"""The Gaussian mechanism on gradients of known sums."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.optimization import privacy
from quintain.optimization.rules import sgd


def make_pairs(*values):
    return [(tf.constant(value, tf.float32), f"variable {i}") for i, value in enumerate(values)]


def test_noise_has_the_given_deviation_and_no_mean():
    mechanism = privacy.GaussianMechanism(clipping_norm=0.5, noise_multiplier=4.0, seed=7)
    pairs = make_pairs(np.full([200, 100], 3.0), np.full([5000], -1.0))

    with privacy.private_sum_applied(1.0):
        (large, _), (small, _) = mechanism(pairs)

    for noise in (large.numpy() - 3.0, small.numpy() + 1.0):
        assert noise.mean() == pytest.approx(0.0, abs=4 * 2.0 / np.sqrt(noise.size))
        assert noise.std() == pytest.approx(2.0, rel=4 / np.sqrt(2 * noise.size))
    share = np.corrcoef(large.numpy().ravel()[:5000], small.numpy())[0, 1]
    assert abs(share) < 4 / np.sqrt(5000)


def test_noise_is_a_function_of_seed_and_step():
    step = tf.Variable(0)

    def draw(seed):
        mechanism = privacy.GaussianMechanism(clipping_norm=1.0, noise_multiplier=1.0, seed=seed)
        mechanism.follow(lambda: step)
        with privacy.private_sum_applied(1.0):
            return mechanism(make_pairs([0.0, 0.0]))[0][0].numpy().tolist()

    first, again, other = draw(1), draw(1), draw(2)
    step.assign(1)

    assert first == again
    assert len({str(noise) for noise in (first, other, draw(1))}) == 3


def test_seed_is_secret_and_new_for_each_mechanism():
    seeds = {
        int(privacy.GaussianMechanism(clipping_norm=1.0, noise_multiplier=1.0).variables[0])
        for _ in range(3)
    }

    assert len(seeds) == 3


def test_noisy_sum_is_divided_by_the_number_of_examples():
    mechanism = privacy.GaussianMechanism(clipping_norm=1.0, noise_multiplier=0.0)

    with privacy.private_sum_applied(tf.constant(4.0)):
        [(gradient, variable)] = mechanism(make_pairs([8.0, 6.0]))

    assert gradient.numpy().tolist() == [2.0, 1.5]
    assert variable == "variable 0"


def test_gradients_outside_of_a_private_sum_count_as_one_example():
    mechanism = privacy.GaussianMechanism(clipping_norm=1.0, noise_multiplier=0.0)

    pairs = mechanism(make_pairs([4.0, 3.0], [[12.0]]))

    np.testing.assert_allclose(pairs[0][0], [4 / 13, 3 / 13], rtol=1e-6)
    np.testing.assert_allclose(pairs[1][0], [[12 / 13]], rtol=1e-6)


def test_optimizer_without_noise_is_refused():
    weight = keras.Variable([1.0])
    optimizer = sgd.SGD(0.1)

    with (
        pytest.raises(errors.ConfigError, match="without a GaussianMechanism"),
        privacy.private_sum_applied(1.0),
    ):
        optimizer.apply_gradients([(tf.constant([1.0]), weight)])


def test_gradients_of_mixed_examples_are_refused_where_a_private_sum_is_required():
    mechanism = privacy.GaussianMechanism(clipping_norm=1.0, noise_multiplier=1.0)

    with (
        pytest.raises(errors.ConfigError, match=r"MyTask\.train_step applies gradients"),
        privacy.private_sum_required("MyTask.train_step"),
    ):
        mechanism(make_pairs([1.0]))


def test_step_that_applies_nothing_is_refused_where_a_private_sum_is_required():
    with (
        pytest.raises(errors.ConfigError, match="super"),
        privacy.private_sum_required("MyTask.train_step"),
    ):
        pass


def test_clip_l2_norm_scales_all_gradients_together():
    pairs = make_pairs([4.0, 3.0], [[12.0]])

    clipped = privacy.clip_l2_norm(pairs, 1.0)

    np.testing.assert_allclose(clipped[0][0], [4 / 13, 3 / 13], rtol=1e-6)
    assert [variable for _, variable in clipped] == ["variable 0", "variable 1"]


def test_add_noise_changes_gradients_and_not_variables():
    noisy = privacy.add_noise(make_pairs(np.zeros([10000])), 10.0)

    assert np.std(noisy[0][0]) == pytest.approx(10.0, rel=0.05)
    assert noisy[0][1] == "variable 0"
