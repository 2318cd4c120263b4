import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.metrics import perplexity


def test_even_logits_give_the_number_of_tokens():
    metric = perplexity.Perplexity()
    metric.update_state(tf.constant([[3, 1], [0, 4]]), tf.zeros([2, 2, 5]))

    assert float(metric.result()) == pytest.approx(5.0)


def test_each_token_counts_the_same_whatever_its_batch():
    metric = perplexity.Perplexity()
    metric.update_state(tf.zeros([1, 3], tf.int32), tf.constant([[[0.0, 0.0]] * 3]))
    metric.update_state(
        tf.zeros([2, 2], tf.int32),
        tf.constant([[[0.0, np.log(7.0)], [0.0, 0.0]], [[0.0, 9.0], [0.0, 0.0]]], tf.float32),
        sample_weight=tf.constant([[1, 0], [0, 1]]),
    )

    # Probabilities 1/2 four times and 1/8 once.
    assert float(metric.result()) == pytest.approx((2**4 * 8) ** 0.2)


def test_positions_of_weight_zero_do_not_count_and_a_reset_forgets():
    metric = perplexity.Perplexity()
    logits = tf.constant([[[0.0, 0.0], [100.0, 0.0]]])
    metric.update_state(tf.constant([[1, 1]]), logits, sample_weight=tf.constant([[True, False]]))
    assert float(metric.result()) == pytest.approx(2.0)

    metric.reset_state()

    assert float(metric.result()) == 1.0
