"""Beam search in a TensorFlow graph.

Shapes:
    B  examples in the batch
    K  beams: candidates kept for each example
    L  ids of a candidate so far, the initial one included
    V  vocabulary size
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import tensorflow as tf

WORST_SCORE: Final = -1e7

SymbolsToLogitsFn = Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]
"""Takes ids `[B * K, L]`, the scalar index of the step and the cache; returns logits `[B * K, V]`
and the new cache."""


class _State(NamedTuple):
    """The candidates after a number of steps."""

    index: tf.Tensor
    """`[]` int32, steps done."""

    alive_ids: tf.Tensor
    """`[B, K, L]` int32, candidates that go on."""

    alive_log_probs: tf.Tensor
    """`[B, K]`, their log-probabilities, best first."""

    finished_ids: tf.Tensor
    """`[B, K, L]` int32, candidates that ended."""

    finished_scores: tf.Tensor
    """`[B, K]`, their length-normalised log-probabilities, best first."""

    is_finished: tf.Tensor
    """`[B, K]` bool, whether there is a candidate at this place."""

    cache: Any
    """Nested tensors `[B, K, ...]`."""


def sequence_beam_search(
    symbols_to_logits_fn: SymbolsToLogitsFn,
    initial_ids: tf.Tensor,
    initial_cache: Any,
    vocab_size: int,
    beam_size: int,
    alpha: float,
    max_decode_length: int | tf.Tensor,
    eos_id: int | Sequence[int],
    padded_decode: bool = False,
    dtype: tf.DType = tf.float32,
    num_results: int | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Searches for the sequences of the highest length-normalised log-probability.

    A candidate of n ids after the initial one scores `log_prob / ((5 + n) / 6)**alpha`. The search
    ends after `max_decode_length` steps, or when no candidate can beat the best `num_results`
    finished ones any more.
    An example for which nothing finished gets its unfinished candidates.

    Args:
        symbols_to_logits_fn: The model: next logits from the ids so far. Under `padded_decode` it
            gets only the last id, `[B * K, 1]`.
        initial_ids: `[B]` int32, the id that every sequence starts with.
        initial_cache: Nested tensors `[B, ...]` that the model hands from step to step. Without
            `padded_decode` their shapes may change.
        vocab_size: Number of ids.
        beam_size: Candidates kept for each example. 1 follows the best id that does not end, and
            returns the best of the ends it passed.
        alpha: Strength of the length normalisation; 0 is none.
        max_decode_length: Largest number of ids after the initial one.
        eos_id: Id, or ids, that end a sequence.
        padded_decode: Whether all shapes stay fixed, as XLA needs. `max_decode_length` must then be
            a Python number.
        dtype: Float type of the scores.
        num_results: How many of the best have to be right; None means all `beam_size`. A confident
            model settles the best one early and the others late.

    Returns:
        `(ids, scores)`: `[B, K, L]` int32, padded with 0 and starting with the initial id, and
        `[B, K]`, best first.

    Source:
        Wu et al., 2016, section 7 (https://arxiv.org/abs/1609.08144).
    """
    search = _Search(
        symbols_to_logits_fn=symbols_to_logits_fn,
        vocab_size=vocab_size,
        beam_size=beam_size,
        alpha=alpha,
        max_decode_length=max_decode_length,
        eos_ids=[eos_id] if isinstance(eos_id, int) else list(eos_id),
        padded_decode=padded_decode,
        dtype=dtype,
        num_results=beam_size if num_results is None else num_results,
    )
    state = search.start(initial_ids, initial_cache)
    (state,) = tf.while_loop(
        search.may_improve,
        lambda current: (search.step(current),),
        loop_vars=[state],
        shape_invariants=None if padded_decode else [search.relax_shapes(state)],
    )
    return search.choose(state)


@dataclasses.dataclass(frozen=True)
class _Search:
    """The parts of `sequence_beam_search`, which documents the fields."""

    symbols_to_logits_fn: SymbolsToLogitsFn
    vocab_size: int
    beam_size: int
    alpha: float
    max_decode_length: int | tf.Tensor
    eos_ids: list[int]
    padded_decode: bool
    dtype: tf.DType
    num_results: int

    def start(self, initial_ids: tf.Tensor, initial_cache: Any) -> _State:
        """Returns the state before the first step: one live candidate for each example."""
        batch_size = tf.shape(initial_ids)[0]
        ids = tf.tile(initial_ids[:, tf.newaxis, tf.newaxis], [1, self.beam_size, 1])
        if self.padded_decode:
            ids = tf.pad(ids, [[0, 0], [0, 0], [0, self.max_decode_length]])
        # Only the first beam is alive, or all beams would hold the same candidate.
        log_probs = tf.constant([[0.0] + [-float("inf")] * (self.beam_size - 1)], dtype=self.dtype)
        return _State(
            index=tf.constant(0),
            alive_ids=ids,
            alive_log_probs=tf.tile(log_probs, [batch_size, 1]),
            finished_ids=tf.zeros_like(ids),
            finished_scores=tf.fill([batch_size, self.beam_size], self._worst),
            is_finished=tf.zeros([batch_size, self.beam_size], tf.bool),
            cache=tf.nest.map_structure(self._repeat_for_beams, initial_cache),
        )

    def relax_shapes(self, state: _State) -> _State:
        """Returns the shapes of a state with every size that may change left open."""
        return tf.nest.map_structure(lambda part: tf.TensorShape([None] * part.shape.rank), state)

    def may_improve(self, state: _State) -> tf.Tensor:
        """Whether some example may still get a better finished candidate."""
        best_alive = state.alive_log_probs[:, 0] / self._norm(self.max_decode_length)
        last = self.num_results - 1
        last_wanted = tf.where(
            state.is_finished[:, last], state.finished_scores[:, last], self._worst
        )
        is_settled = tf.reduce_all(last_wanted >= best_alive)
        return tf.logical_and(state.index < self.max_decode_length, tf.logical_not(is_settled))

    def step(self, state: _State) -> _State:
        """Extends all candidates by one id."""
        ids, log_probs, cache, beams = self._extend(state)
        is_ended = tf.reduce_any(
            tf.equal(ids[..., tf.newaxis], tf.constant(self.eos_ids, ids.dtype)), axis=-1
        )
        sequences = self._append(tf.gather(state.alive_ids, beams, batch_dims=1), ids, state.index)
        alive_log_probs, places = tf.math.top_k(
            tf.where(is_ended, -tf.constant(float("inf"), self.dtype), log_probs), self.beam_size
        )
        alive_beams = tf.gather(beams, places, batch_dims=1)
        finished_ids, finished_scores, is_finished = self._finish(
            state, sequences, log_probs, is_ended
        )
        return _State(
            index=state.index + 1,
            alive_ids=tf.gather(sequences, places, batch_dims=1),
            alive_log_probs=alive_log_probs,
            finished_ids=finished_ids,
            finished_scores=finished_scores,
            is_finished=is_finished,
            cache=tf.nest.map_structure(
                lambda part: tf.gather(part, alive_beams, batch_dims=1), cache
            ),
        )

    def choose(self, state: _State) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the finished candidates, or the live ones where nothing finished."""
        has_finished = tf.reduce_any(state.is_finished, axis=1)
        ids = tf.where(has_finished[:, tf.newaxis, tf.newaxis], state.finished_ids, state.alive_ids)
        scores = tf.where(has_finished[:, tf.newaxis], state.finished_scores, state.alive_log_probs)
        return ids, scores

    def _extend(self, state: _State) -> tuple[tf.Tensor, tf.Tensor, Any, tf.Tensor]:
        """Finds the best `2 * K` continuations; at least K of them do not end.

        Returns:
            Ids, log-probabilities, the cache `[B, K, ...]`, and the beams that were continued.
        """
        ids = state.alive_ids
        if self.padded_decode:
            ids = tf.gather(ids, [state.index], axis=2)
        flat_cache = tf.nest.map_structure(_flatten_beams, state.cache)
        logits, flat_cache = self.symbols_to_logits_fn(_flatten_beams(ids), state.index, flat_cache)
        cache = tf.nest.map_structure(self._unflatten_beams, flat_cache)
        log_probs = tf.nn.log_softmax(tf.cast(logits, self.dtype))  # [B * K, V]
        totals = self._unflatten_beams(log_probs) + state.alive_log_probs[..., tf.newaxis]
        flat_totals = tf.reshape(totals, [-1, self.beam_size * self.vocab_size])
        # With two end ids or more, all of 2 * K continuations might end.
        width = min((len(self.eos_ids) + 1) * self.beam_size, self.beam_size * self.vocab_size)
        best, places = tf.math.top_k(flat_totals, width)
        return places % self.vocab_size, best, cache, places // self.vocab_size

    def _append(self, sequences: tf.Tensor, ids: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        if not self.padded_decode:
            return tf.concat([sequences, ids[..., tf.newaxis]], axis=2)
        place = tf.one_hot(index + 1, tf.shape(sequences)[2], dtype=ids.dtype)
        return sequences + place * ids[..., tf.newaxis]

    def _finish(
        self,
        state: _State,
        sequences: tf.Tensor,
        log_probs: tf.Tensor,
        is_ended: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the best K of the candidates that ended before and in this step."""
        finished_ids = state.finished_ids
        if not self.padded_decode:
            finished_ids = tf.pad(finished_ids, [[0, 0], [0, 0], [0, 1]])
        is_ended = tf.logical_and(is_ended, tf.math.is_finite(log_probs))
        scores = tf.where(is_ended, log_probs / self._norm(state.index + 1), self._worst)
        all_ids = tf.concat([finished_ids, sequences], axis=1)
        all_scores = tf.concat([state.finished_scores, scores], axis=1)
        best, places = tf.math.top_k(all_scores, self.beam_size)
        return (
            tf.gather(all_ids, places, batch_dims=1),
            best,
            tf.gather(tf.concat([state.is_finished, is_ended], axis=1), places, batch_dims=1),
        )

    def _norm(self, length: int | tf.Tensor) -> tf.Tensor:
        return tf.pow((5.0 + tf.cast(length, self.dtype)) / 6.0, tf.cast(self.alpha, self.dtype))

    @property
    def _worst(self) -> tf.Tensor:
        return tf.cast(max(WORST_SCORE, float(self.dtype.min)), self.dtype)

    def _repeat_for_beams(self, part: tf.Tensor) -> tf.Tensor:
        return tf.repeat(part[:, tf.newaxis], self.beam_size, axis=1)

    def _unflatten_beams(self, part: tf.Tensor) -> tf.Tensor:
        return tf.reshape(part, tf.concat([[-1, self.beam_size], tf.shape(part)[1:]], axis=0))


def _flatten_beams(part: tf.Tensor) -> tf.Tensor:
    """Turns `[B, K, ...]` into `[B * K, ...]`."""
    shape = tf.shape(part)
    flat = tf.reshape(part, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    return tf.ensure_shape(flat, [None, *part.shape[2:]])
