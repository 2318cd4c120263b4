"""Sampling of outputs, and greedy decoding, in a TensorFlow graph.

Shapes:
    B  examples in the batch
    b  examples that are still in the batch
    K  samples of each example
    L  ids of a sample so far, the initial one included
    V  vocabulary size
"""

import dataclasses
import math

import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.ops import candidate_loop


@dataclasses.dataclass(frozen=True)
class Sampler(candidate_loop.CandidateLoop):
    """Draws K samples of each example, each by itself.

    The score of a sample is the length-normalised log-probability that the model gives it, before
    temperature, top-k and top-p.
    """

    temperature: float | tf.Tensor
    """What logits are divided by; 0 follows the most probable ids."""

    top_k: int | tf.Tensor
    """Most probable ids to draw from; 0 is all."""

    top_p: float | tf.Tensor
    """Probability of the ids to draw from, the most probable ones; 1 is all."""

    seed: tf.Tensor
    """`[2]` integers: equal ones draw the same samples from the same batch."""

    @override
    def start_log_probs(self, size: tf.Tensor) -> tf.Tensor:
        """Starts every sample with probability 1."""
        return tf.zeros([size, self.num_candidates], self.dtype)

    @override
    def is_settled(self, state: candidate_loop.State) -> tf.Tensor:
        """Returns whether all samples of each example ended."""
        return tf.reduce_all(state.is_finished, axis=1)

    @override
    def advance(self, state: candidate_loop.State) -> candidate_loop.State:
        """Draws an id for each sample that has not ended."""
        logits, cache = self.predictor.predict(state.alive_ids, state.index, state.cache)
        model_log_probs = tf.nn.log_softmax(tf.cast(logits, self.dtype))  # [b, K, V]
        allowed = self.rules.apply(model_log_probs, state.alive_ids, state.index, state.prefix)
        ids = self._draw(allowed, state)  # [b, K]
        totals = state.alive_log_probs + tf.gather(model_log_probs, ids, batch_dims=2)  # [b, K]
        sequences = self.extend(state.alive_ids, ids, state.index)  # [b, K, L]
        is_ended = self.rules.is_end(ids) & tf.logical_not(state.is_finished)
        scores = totals / self.norm(state.index + 1)
        return state._replace(
            alive_ids=sequences,
            alive_log_probs=totals,
            finished_ids=tf.where(is_ended[..., tf.newaxis], sequences, state.finished_ids),
            finished_scores=tf.where(is_ended, scores, state.finished_scores),
            is_finished=state.is_finished | is_ended,
            cache=cache,
        )

    @override
    def choose(self, state: candidate_loop.State) -> candidate_loop.Results:
        """Returns the samples, those that did not end as they are."""
        alive_scores = state.alive_log_probs / self.norm(state.max_lengths)[:, tf.newaxis]  # [b, K]
        return candidate_loop.Results(
            tf.where(state.is_finished[..., tf.newaxis], state.finished_ids, state.alive_ids),
            tf.where(state.is_finished, state.finished_scores, alive_scores),
        )

    def _draw(self, log_probs: tf.Tensor, state: candidate_loop.State) -> tf.Tensor:
        """Returns ids `[b, K]` for log-probabilities `[b, K, V]`."""
        if isinstance(self.temperature, int | float) and self.temperature == 0:
            return greedy(log_probs)[1][..., 0]
        filtered = sample_logits_with_temperature(log_probs, self.temperature)
        if not isinstance(self.top_k, int) or self.top_k > 0:
            filtered = sample_top_k(filtered, self.top_k)
        if not isinstance(self.top_p, int | float) or self.top_p < 1:
            filtered = sample_top_p(filtered, self.top_p)
        # Numbers for all that the batch began with: they don't depend on who has left it.
        seed = tf.cast(self.seed, tf.int32) + tf.stack([0, state.index])
        numbers = tf.random.stateless_uniform(
            [state.size, self.num_candidates], seed, dtype=tf.float32
        )
        numbers = tf.gather(numbers, state.rows)[..., tf.newaxis]  # [b, K, 1]
        reached = tf.cumsum(tf.cast(tf.nn.softmax(filtered), tf.float32), axis=-1)  # [b, K, V]
        is_before = reached <= numbers * reached[..., -1:]  # [b, K, V]
        return tf.math.count_nonzero(is_before, axis=-1, dtype=tf.int32)


def build_seed(seed: int | None) -> tf.Tensor:
    """Returns the seed of a call: a given one, or one by TensorFlow's global generator."""
    if seed is None:
        return tf.random.uniform([2], maxval=2**30, dtype=tf.int32)
    return tf.constant([seed % 2**31, 0], tf.int32)


def greedy(log_probs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the largest of `[..., V]` and its place, `[..., 1]` each."""
    values, ids = tf.math.top_k(log_probs, k=1)
    return values, ids


def sample_logits_with_temperature(logits: tf.Tensor, temperature: float | tf.Tensor) -> tf.Tensor:
    """Divides logits `[..., V]`: below 1 makes the probable more probable, above 1 less."""
    return logits / tf.cast(temperature, logits.dtype)


def sample_top_k(logits: tf.Tensor, top_k: int | tf.Tensor) -> tf.Tensor:
    """Leaves the `top_k` largest of `[..., V]`; the others become minus infinity."""
    top_k = tf.clip_by_value(top_k, 1, tf.shape(logits)[-1])
    smallest = tf.math.top_k(logits, k=top_k)[0][..., -1:]  # [..., 1]
    return set_tensor_by_indices_to_value(logits, logits < smallest, -math.inf)


def sample_top_p(logits: tf.Tensor, top_p: float | tf.Tensor) -> tf.Tensor:
    """Leaves the fewest largest of `[..., V]` whose probabilities reach `top_p`, at least one.

    Source:
        Holtzman et al., 2020, section 3.1 (https://arxiv.org/abs/1904.09751).
    """
    largest, _ = tf.math.top_k(logits, k=tf.shape(logits)[-1])  # [..., V]
    before = tf.cumsum(tf.nn.softmax(largest), axis=-1, exclusive=True)  # [..., V]
    is_kept = before <= tf.cast(top_p, logits.dtype)
    infinity = tf.constant(float("inf"), logits.dtype)
    smallest = tf.reduce_min(tf.where(is_kept, largest, infinity), axis=-1, keepdims=True)
    smallest = tf.minimum(smallest, largest[..., :1])
    return set_tensor_by_indices_to_value(logits, logits < smallest, -math.inf)


def set_tensor_by_indices_to_value(
    input_tensor: tf.Tensor, indices: tf.Tensor, value: float
) -> tf.Tensor:
    """Returns a float tensor with `value` where `indices`, of the same shape, are true."""
    return tf.where(indices, tf.cast(value, input_tensor.dtype), input_tensor)
