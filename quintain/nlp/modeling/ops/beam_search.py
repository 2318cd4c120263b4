"""Beam search in a TensorFlow graph.

Shapes:
    B  examples in the batch
    b  examples that are still in the batch
    K  beams: candidates kept for each example
    W  continuations that are looked at: of each beam, then of each example
    L  ids of a candidate so far, the initial one included
    P  longest prefix
    V  vocabulary size
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.ops import candidate_loop, decoding_module, decoding_rules

WORST_SCORE: Final = candidate_loop.WORST_SCORE

_BLOCK: Final = 64
"""Ids whose largest value is looked at before they are."""

SymbolsToLogitsFn = Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]
"""Takes ids `[B * K, L]`, the scalar index of the step and the cache; returns logits `[B * K, V]`
and the new cache."""


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
    dtype: tf.DType | str = tf.float32,
    noise_multiplier: float = 0.0,
    decoding_name: str | None = None,
    constraint_mask: tf.Tensor | None = None,
    *,
    num_results: int | None = None,
    min_length: int = 0,
    no_repeat_ngram_size: int = 0,
    prefix: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Searches for the sequences of the highest length-normalised log-probability.

    A candidate of n ids after the initial one scores `log_prob / ((5 + n) / 6)**alpha`. The search
    of an example ends after `max_decode_length` steps, or when no candidate can beat the best
    `num_results` finished ones any more.
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
        max_decode_length: Largest number of ids after the initial one; for all, or `[B]`.
        eos_id: Id, or ids, that end a sequence.
        padded_decode: Whether all shapes stay fixed, as XLA needs. `max_decode_length` must then be
            a Python number.
        dtype: Float type of the scores.
        noise_multiplier: How much Gumbel noise is added to the logits; 0 is none.
        decoding_name: Name of the loop in the graph.
        constraint_mask: `[V]`, 1 at the ids that may come first. None allows all.
        num_results: How many of the best have to be right; None means all `beam_size`. A confident
            model settles the best one early and the others late.
        min_length: Fewest ids of a sequence, the initial one and its end not counted.
        no_repeat_ngram_size: No sequence holds the same so many ids in a row twice; 0 allows all.
        prefix: `[B, P]` int32, padded with 0: ids that the sequences must start with, after the
            initial one. They count in the score and are exempt from the two rules above.

    Returns:
        `(ids, scores)`: `[B, K, L]` int32, padded with 0 and starting with the initial id, and
        `[B, K]`, best first.

    Raises:
        ConfigError: If `min_length` or `no_repeat_ngram_size` is negative.

    Source:
        Wu et al., 2016, section 7 (https://arxiv.org/abs/1609.08144).
    """
    search = SequenceBeamSearch(
        symbols_to_logits_fn,
        vocab_size,
        beam_size,
        alpha,
        max_decode_length,
        eos_id,
        padded_decode,
        dtype,
        noise_multiplier,
        decoding_name,
        num_results=num_results,
        min_length=min_length,
        no_repeat_ngram_size=no_repeat_ngram_size,
    )
    return search.search(initial_ids, initial_cache, constraint_mask, prefix=prefix)


class SequenceBeamSearch(tf.Module):
    """`sequence_beam_search` as an object; arguments as there."""

    def __init__(
        self,
        symbols_to_logits_fn: SymbolsToLogitsFn,
        vocab_size: int,
        beam_size: int,
        alpha: float,
        max_decode_length: int | tf.Tensor,
        eos_id: int | Sequence[int],
        padded_decode: bool,
        dtype: tf.DType | str = tf.float32,
        noise_multiplier: float = 0.0,
        decoding_name: str | None = None,
        *,
        num_results: int | None = None,
        min_length: int = 0,
        no_repeat_ngram_size: int = 0,
    ) -> None:
        super().__init__()
        self.symbols_to_logits_fn = symbols_to_logits_fn
        self.vocab_size = vocab_size
        self.beam_size = beam_size
        self.alpha = alpha
        self.max_decode_length = max_decode_length
        self.eos_id = [eos_id] if isinstance(eos_id, int) else list(eos_id)
        self.padded_decode = padded_decode
        self.dtype = tf.as_dtype(dtype)
        self.noise_multiplier = noise_multiplier
        self.decoding_name = decoding_name
        self.num_results = beam_size if num_results is None else num_results
        self._rules = decoding_rules.Rules(tuple(self.eos_id), min_length, no_repeat_ngram_size)

    def search(
        self,
        initial_ids: tf.Tensor,
        initial_cache: Any,
        constraint_mask: tf.Tensor | None = None,
        *,
        prefix: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Searches for the continuations of `initial_ids`."""
        search = BeamSearch(
            predictor=FunctionPredictor(
                self.symbols_to_logits_fn,
                vocab_size=self.vocab_size,
                sees_last_only=self.padded_decode,
                noise_multiplier=self.noise_multiplier,
                first_mask=constraint_mask,
            ),
            rules=self._rules,
            num_candidates=self.beam_size,
            alpha=self.alpha,
            max_length=self.max_decode_length,
            has_fixed_shapes=self.padded_decode,
            dtype=self.dtype,
            num_results=self.num_results,
        )
        with tf.name_scope(self.decoding_name or "beam_search"):
            return search.run(initial_ids, initial_cache, prefix)

    @staticmethod
    def _gather_beams(
        nested: Any, beam_indices: tf.Tensor, batch_size: Any, new_beam_size: int
    ) -> Any:
        """Returns the beams `[B, new_beam_size]` of tensors `[B, K, ...]`."""
        del batch_size, new_beam_size
        return tf.nest.map_structure(
            lambda part: tf.gather(part, beam_indices, batch_dims=1), nested
        )


class FunctionPredictor(candidate_loop.Predictor):
    """A model given as a function, with a cache that is copied along with the candidates."""

    # The function may hold tensors of all examples.
    can_drop = False

    def __init__(
        self,
        symbols_to_logits_fn: SymbolsToLogitsFn,
        *,
        vocab_size: int,
        sees_last_only: bool,
        noise_multiplier: float = 0.0,
        first_mask: tf.Tensor | None = None,
    ) -> None:
        """Stores the function.

        Args:
            symbols_to_logits_fn: The model.
            vocab_size: Number of ids.
            sees_last_only: Whether it gets the last ids only.
            noise_multiplier: How much Gumbel noise is added to the logits.
            first_mask: `[V]`, 1 at the ids that may come first; None allows all.
        """
        self._function = symbols_to_logits_fn
        self._vocab_size = vocab_size
        self._sees_last_only = sees_last_only
        self._noise_multiplier = noise_multiplier
        self._first_mask = first_mask

    @override
    def start(self, cache: Any, num_candidates: int) -> Any:
        """Repeats `[B, ...]` for the candidates."""
        return tf.nest.map_structure(lambda part: expand_to_beam_size(part, num_candidates), cache)

    @override
    def predict(self, sequences: tf.Tensor, index: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        """Calls the function with candidates and examples in one dimension."""
        if self._sees_last_only:
            ids = tf.gather(sequences, [index], axis=2)  # [B, K, 1]
        else:
            ids = sequences[:, :, : index + 1]  # [B, K, L]
        num_candidates = sequences.shape[1]
        cache = tf.nest.map_structure(flatten_beam_dim, cache)
        logits, cache = self._function(flatten_beam_dim(ids), index, cache)
        if self._first_mask is not None:
            is_excluded = tf.not_equal(self._first_mask, 1) & tf.equal(index, 0)  # [V]
            logits -= tf.cast(is_excluded, logits.dtype) * inf(logits.dtype)
        if self._noise_multiplier > 0:
            uniform = tf.random.uniform(tf.shape(logits), dtype=logits.dtype)
            logits -= tf.math.log(-tf.math.log(uniform)) * self._noise_multiplier
        logits = tf.reshape(logits, [-1, num_candidates, self._vocab_size])  # [B, K, V]
        return logits, tf.nest.map_structure(
            lambda part: _unflatten_beam_dim(part, -1, num_candidates), cache
        )

    @override
    def reorder(self, cache: Any, candidates: tf.Tensor) -> Any:
        """Copies every part of the cache."""
        return tf.nest.map_structure(lambda part: tf.gather(part, candidates, batch_dims=1), cache)


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


def inf(dtype: tf.DType | str) -> float:
    """Returns a number that is large, and finite in a float type."""
    return float(min(-WORST_SCORE, tf.as_dtype(dtype).max))


def expand_to_beam_size(tensor: tf.Tensor, beam_size: int) -> tf.Tensor:
    """Repeats `[B, ...]` for the beams, `[B, K, ...]`."""
    return tf.repeat(tensor[:, tf.newaxis], beam_size, axis=1)


def flatten_beam_dim(tensor: tf.Tensor) -> tf.Tensor:
    """Turns `[B, K, ...]` into `[B * K, ...]`."""
    shape = tf.shape(tensor)
    flat = tf.reshape(tensor, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    return tf.ensure_shape(flat, [None, *tensor.shape[2:]])


def _unflatten_beam_dim(tensor: tf.Tensor, batch_size: Any, beam_size: int) -> tf.Tensor:
    """Turns `[B * K, ...]` into `[B, K, ...]`."""
    return tf.reshape(tensor, tf.concat([[batch_size, beam_size], tf.shape(tensor)[1:]], axis=0))


_get_shape_keep_last_dim = decoding_module.get_shape_keep_last_dim
