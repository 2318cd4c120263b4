"""Beam search with a model given as a function.

Shapes:
    B  examples in the batch
    K  beams: candidates kept for each example
    L  ids of a candidate so far, the initial one included
    P  longest prefix
    V  vocabulary size
"""

import functools
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from quintain.garden.nlp.ops import decoding_module
from quintain.nlp.modeling.ops import beam, candidate_loop, decoding_rules, step_decoder

WORST_SCORE: Final = candidate_loop.WORST_SCORE

expand_to_beam_size = step_decoder.expand_to_beam_size
flatten_beam_dim = step_decoder.flatten_beam_dim
_get_shape_keep_last_dim = decoding_module.get_shape_keep_last_dim


def sequence_beam_search(
    symbols_to_logits_fn: step_decoder.SymbolsToLogitsFn,
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
        symbols_to_logits_fn: step_decoder.SymbolsToLogitsFn,
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
        search = beam.BeamSearch(
            predictor=step_decoder.FunctionPredictor(
                functools.partial(self._find_logits, constraint_mask),
                vocab_size=self.vocab_size,
                sees_last_only=self.padded_decode,
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

    def _find_logits(
        self, first_mask: tf.Tensor | None, ids: tf.Tensor, index: tf.Tensor, cache: Any
    ) -> tuple[tf.Tensor, Any]:
        logits, cache = self.symbols_to_logits_fn(ids, index, cache)
        if first_mask is not None:
            is_excluded = tf.not_equal(first_mask, 1) & tf.equal(index, 0)  # [V]
            logits -= tf.cast(is_excluded, logits.dtype) * inf(logits.dtype)
        if self.noise_multiplier > 0:
            uniform = tf.random.uniform(tf.shape(logits), dtype=logits.dtype)
            logits -= tf.math.log(-tf.math.log(uniform)) * self.noise_multiplier
        return logits, cache

    @staticmethod
    def _gather_beams(
        nested: Any, beam_indices: tf.Tensor, batch_size: Any, new_beam_size: int
    ) -> Any:
        """Returns the beams `[B, new_beam_size]` of tensors `[B, K, ...]`."""
        del batch_size, new_beam_size
        return tf.nest.map_structure(
            lambda part: tf.gather(part, beam_indices, batch_dims=1), nested
        )


def inf(dtype: tf.DType | str) -> float:
    """Returns a number that is large, and finite in a float type."""
    return float(min(-WORST_SCORE, tf.as_dtype(dtype).max))
