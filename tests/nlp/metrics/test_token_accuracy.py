import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.metrics import token_accuracy


def test_accuracy_is_the_share_of_weighed_tokens_over_batches_of_any_length():
    random = np.random.default_rng(0)
    accuracy = token_accuracy.TokenAccuracy()
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
    ours, theirs = token_accuracy.TokenAccuracy(), keras.metrics.SparseCategoricalAccuracy()
    ours.update_state(labels, logits)
    theirs.update_state(labels, logits)

    assert float(ours.result()) == pytest.approx(float(theirs.result()), abs=1e-7)


def test_of_several_largest_logits_the_first_counts():
    accuracy = token_accuracy.TokenAccuracy()
    accuracy.update_state(tf.constant([0, 1]), tf.constant([[2.0, 2.0], [2.0, 2.0]]))

    assert float(accuracy.result()) == 0.5


def test_a_metric_without_tokens_is_zero():
    assert float(token_accuracy.TokenAccuracy().result()) == 0.0
