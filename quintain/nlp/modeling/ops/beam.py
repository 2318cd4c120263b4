"""Beam search in a TensorFlow graph.

Shapes:
    b  examples in the batch
    K  beams: candidates kept for each example
    W  continuations that are looked at: of each beam, then of each example
    L  ids of a candidate so far, the initial one included
    V  vocabulary size
"""

import dataclasses
from typing import Any, Final

import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.ops import candidate_loop

_BLOCK: Final = 64
"""Ids whose largest value is looked at before they are."""


@dataclasses.dataclass(frozen=True)
class BeamSearch(candidate_loop.CandidateLoop):
    """Keeps the K best candidates at every step, and the K best of those that ended."""

    num_results: int
    """How many of the best have to be right."""

    @override
    def start_log_probs(self, size: tf.Tensor) -> tf.Tensor:
        """Makes only the first beam alive, or all beams would hold the same candidate."""
        log_probs = [0.0] + [-float("inf")] * (self.num_candidates - 1)
        return tf.tile(tf.constant([log_probs], self.dtype), [size, 1])

    @override
    def is_settled(self, state: candidate_loop.State) -> tf.Tensor:
        """Returns whether no live candidate can get into the best `num_results`."""
        best_alive = state.alive_log_probs[:, 0] / self.norm(state.max_lengths)  # [b]
        last = self.num_results - 1
        last_wanted = tf.where(
            state.is_finished[:, last], state.finished_scores[:, last], self.worst_score
        )
        return last_wanted >= best_alive

    @override
    def advance(self, state: candidate_loop.State) -> candidate_loop.State:
        """Extends all candidates by one id."""
        ids, log_probs, cache, beams = self._extend(state)  # [b, W] but for the cache
        is_ended = self.rules.is_end(ids)  # [b, W]
        sequences = self.extend(tf.gather(state.alive_ids, beams, batch_dims=1), ids, state.index)
        alive_log_probs, places = tf.math.top_k(
            tf.where(is_ended, -tf.constant(float("inf"), self.dtype), log_probs),
            self.num_candidates,
        )
        finished_ids, finished_scores, is_finished = self._finish(
            state, sequences, log_probs, is_ended
        )
        return state._replace(
            alive_ids=tf.gather(sequences, places, batch_dims=1),
            alive_log_probs=alive_log_probs,
            finished_ids=finished_ids,
            finished_scores=finished_scores,
            is_finished=is_finished,
            cache=self.predictor.reorder(cache, tf.gather(beams, places, batch_dims=1)),
        )

    @override
    def choose(self, state: candidate_loop.State) -> candidate_loop.Results:
        """Returns the finished candidates, or the live ones where nothing finished."""
        has_finished = tf.reduce_any(state.is_finished, axis=1)  # [b]
        ids = tf.where(has_finished[:, tf.newaxis, tf.newaxis], state.finished_ids, state.alive_ids)
        scores = tf.where(has_finished[:, tf.newaxis], state.finished_scores, state.alive_log_probs)
        return candidate_loop.Results(ids, scores)

    def _extend(self, state: candidate_loop.State) -> tuple[tf.Tensor, tf.Tensor, Any, tf.Tensor]:
        """Finds the best `2 * K` continuations; at least K of them do not end.

        Returns:
            Ids, log-probabilities, the cache, and the beams that were continued.
        """
        logits, cache = self.predictor.predict(state.alive_ids, state.index, state.cache)
        log_probs = tf.nn.log_softmax(tf.cast(logits, self.dtype))  # [b, K, V]
        log_probs = self.rules.apply(log_probs, state.alive_ids, state.index, state.prefix)
        # With two end ids or more, all of 2 * K continuations might end.
        wanted = (len(self.rules.eos_ids) + 1) * self.num_candidates
        # Each beam's best are found first: the best of all are among them.
        best, ids = _find_largest(log_probs, min(wanted, log_probs.shape[-1]))  # [b, K, W]
        width = ids.shape[-1]
        totals = best + state.alive_log_probs[..., tf.newaxis]  # [b, K, W]
        best, places = tf.math.top_k(
            tf.reshape(totals, [-1, self.num_candidates * width]),
            min(wanted, self.num_candidates * width),
        )
        ids = tf.gather(tf.reshape(ids, [-1, self.num_candidates * width]), places, batch_dims=1)
        return ids, best, cache, places // width

    def _finish(
        self,
        state: candidate_loop.State,
        sequences: tf.Tensor,
        log_probs: tf.Tensor,
        is_ended: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the best K of the candidates that ended before and in this step."""
        is_ended = tf.logical_and(is_ended, tf.math.is_finite(log_probs))  # [b, W]
        scores = tf.where(is_ended, log_probs / self.norm(state.index + 1), self.worst_score)
        all_ids = tf.concat([state.finished_ids, sequences], axis=1)  # [b, K + W, L]
        all_scores = tf.concat([state.finished_scores, scores], axis=1)  # [b, K + W]
        best, places = tf.math.top_k(all_scores, self.num_candidates)  # [b, K]
        return (
            tf.gather(all_ids, places, batch_dims=1),
            best,
            tf.gather(tf.concat([state.is_finished, is_ended], axis=1), places, batch_dims=1),
        )


def _find_largest(values: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the largest of `[b, K, V]`, best first, and their places.

    They are in the blocks of the largest maxima; looking at those first takes a fifth of the time.
    """
    size = values.shape[-1]
    if size % _BLOCK or size < 4 * _BLOCK * count // 2:
        return tf.math.top_k(values, count)
    shape = tf.shape(values)
    blocks = tf.reshape(values, [-1, size // _BLOCK, _BLOCK])  # [b * K, blocks, block]
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, axis=2), count)  # [b * K, count]
    candidates = tf.reshape(tf.gather(blocks, chosen, batch_dims=1), [-1, count * _BLOCK])
    largest, places = tf.math.top_k(candidates, count)  # [b * K, count]
    block = tf.gather(chosen, places // _BLOCK, batch_dims=1)  # [b * K, count]
    shape = tf.concat([shape[:2], [count]], axis=0)
    ids = block * _BLOCK + places % _BLOCK  # [b * K, count]
    return tf.reshape(largest, shape), tf.reshape(ids, shape)
