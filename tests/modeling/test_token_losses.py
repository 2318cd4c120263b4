import numpy as np
import pytest
import tensorflow as tf

from quintain.modeling import token_losses

LOGITS = np.random.default_rng(0).normal(size=(2, 4, 7)).astype(np.float32)
LABELS = np.array([[3, 1, 6, 0], [2, 0, 0, 0]], np.int32)


def compute_reference(logits, labels, smoothing):
    """The definition, in float64, by way of the smoothed targets."""
    logits = logits.astype(np.float64)
    vocab_size = logits.shape[-1]
    on, off = 1 - smoothing, smoothing / (vocab_size - 1)
    targets = np.full(logits.shape, off)
    np.put_along_axis(targets, labels[..., np.newaxis], on, axis=-1)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    entropy = -sum(p * np.log(p) for p in [on] + [off] * (vocab_size - 1) if p > 0)
    return (-(targets * log_probs).sum(-1) - entropy) * (labels != 0), targets, np.exp(log_probs)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_loss_is_the_cross_entropy_with_smoothed_targets_less_their_entropy(smoothing):
    loss, weights = token_losses.padded_cross_entropy(
        tf.constant(LOGITS), tf.constant(LABELS), smoothing=smoothing
    )

    expected, _, _ = compute_reference(LOGITS, LABELS, smoothing)
    np.testing.assert_allclose(loss, expected, atol=2e-6)
    np.testing.assert_array_equal(weights, [[1, 1, 1, 0], [1, 0, 0, 0]])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_gradient_is_softmax_less_targets_at_tokens_and_zero_at_padding(smoothing):
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss, _ = token_losses.padded_cross_entropy(
            logits, tf.constant(LABELS), smoothing=smoothing
        )
    gradient = tape.gradient(loss, logits)

    _, targets, probabilities = compute_reference(LOGITS, LABELS, smoothing)
    expected = (probabilities - targets) * (LABELS != 0)[..., np.newaxis]
    np.testing.assert_allclose(gradient, expected, atol=2e-6)


@pytest.mark.parametrize("smoothing", [0.1, 0.3])
def test_a_perfect_prediction_scores_zero(smoothing):
    _, targets, _ = compute_reference(LOGITS, LABELS, smoothing)

    loss, _ = token_losses.padded_cross_entropy(
        tf.constant(np.log(targets), tf.float32), tf.constant(LABELS), smoothing=smoothing
    )

    np.testing.assert_allclose(loss, np.zeros((2, 4)), atol=2e-6)


def test_padding_alone_weighs_nothing_and_is_finite():
    loss, weights = token_losses.padded_cross_entropy(
        tf.constant(LOGITS), tf.zeros([2, 4], tf.int32), smoothing=0.1
    )

    assert float(tf.reduce_sum(loss)) == 0.0
    assert float(tf.reduce_sum(weights)) == 0.0


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_outside_its_range_is_an_error(smoothing):
    with pytest.raises(ValueError, match="0 <= smoothing < 1"):
        token_losses.padded_cross_entropy(
            tf.constant(LOGITS), tf.constant(LABELS), smoothing=smoothing
        )
