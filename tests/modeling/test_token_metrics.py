import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.modeling import token_metrics


def test_accuracy_is_the_share_of_weighed_tokens_over_batches_of_any_length():
    random = np.random.default_rng(0)
    accuracy = token_metrics.TokenAccuracy()
    num_right = num_tokens = 0
    for length in (4, 7):
        labels = random.integers(0, 3, [2, length])
        logits = random.normal(size=[2, length, 3]).astype("float32")
        weights = random.integers(0, 2, [2, length])
        accuracy.update_state(labels, logits, sample_weight=weights)
        num_right += np.sum((logits.argmax(-1) == labels) * weights)
        num_tokens += weights.sum()

    assert 0 < num_right < num_tokens
    assert float(accuracy.result()) == pytest.approx(num_right / num_tokens, abs=1e-7)


def test_one_batch_scores_as_keras_own_accuracy():
    labels = np.array([[0, 2, 1], [1, 1, 0]])
    logits = np.random.default_rng(1).normal(size=[2, 3, 3]).astype("float32")
    ours, theirs = token_metrics.TokenAccuracy(), keras.metrics.SparseCategoricalAccuracy()
    ours.update_state(labels, logits)
    theirs.update_state(labels, logits)

    assert float(ours.result()) == pytest.approx(float(theirs.result()), abs=1e-7)


def test_of_several_largest_logits_the_first_counts():
    accuracy = token_metrics.TokenAccuracy()
    accuracy.update_state(tf.constant([0, 1]), tf.constant([[2.0, 2.0], [2.0, 2.0]]))

    assert float(accuracy.result()) == 0.5


def test_a_metric_without_tokens_is_zero():
    assert float(token_metrics.TokenAccuracy().result()) == 0.0


def test_even_logits_give_the_number_of_tokens():
    metric = token_metrics.Perplexity()
    metric.update_state(tf.constant([[3, 1], [0, 4]]), tf.zeros([2, 2, 5]))

    assert float(metric.result()) == pytest.approx(5.0)


def test_each_token_counts_the_same_whatever_its_batch():
    metric = token_metrics.Perplexity()
    metric.update_state(tf.zeros([1, 3], tf.int32), tf.constant([[[0.0, 0.0]] * 3]))
    metric.update_state(
        tf.zeros([2, 2], tf.int32),
        tf.constant([[[0.0, np.log(7.0)], [0.0, 0.0]], [[0.0, 9.0], [0.0, 0.0]]], tf.float32),
        sample_weight=tf.constant([[1, 0], [0, 1]]),
    )

    # Probabilities 1/2 four times and 1/8 once.
    assert float(metric.result()) == pytest.approx((2**4 * 8) ** 0.2)


def test_positions_of_weight_zero_do_not_count_and_a_reset_forgets():
    metric = token_metrics.Perplexity()
    logits = tf.constant([[[0.0, 0.0], [100.0, 0.0]]])
    metric.update_state(tf.constant([[1, 1]]), logits, sample_weight=tf.constant([[True, False]]))
    assert float(metric.result()) == pytest.approx(2.0)

    metric.reset_state()

    assert float(metric.result()) == 1.0
