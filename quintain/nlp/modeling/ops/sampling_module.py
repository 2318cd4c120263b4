"""Draws outputs from a model, or follows its most probable ids, in a TensorFlow graph.

Shapes:
    B  examples in the batch
    b  examples that are still in the batch
    K  samples of each example
    L  ids of a sample so far, the initial one included
    V  vocabulary size
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.ops import beam_search, candidate_loop, decoding_rules

LengthNormalizationFn = Callable[[Any, tf.DType], Any]
"""Takes the length and the float type; returns what log-probabilities are divided by."""


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
    return _exclude(logits, logits < smallest)


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
    return _exclude(logits, logits < smallest)


def _exclude(logits: tf.Tensor, is_excluded: tf.Tensor) -> tf.Tensor:
    return tf.where(is_excluded, tf.constant(-float("inf"), logits.dtype), logits)


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

    length_normalization_fn: LengthNormalizationFn | None = None
    """What scores are divided by, in place of `alpha`."""

    initial_log_probs: tf.Tensor | None = None
    """`[B, K]`, of what the initial ids stand for; None for 0."""

    @override
    def start_log_probs(self, size: tf.Tensor) -> tf.Tensor:
        """Starts every sample with probability 1, or what was given."""
        if self.initial_log_probs is not None:
            return tf.cast(self.initial_log_probs, self.dtype)
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

    @override
    def norm(self, length: int | tf.Tensor) -> tf.Tensor:
        """Returns what the log-probability of so many ids is divided by."""
        if self.length_normalization_fn is None:
            return super().norm(length)
        return tf.cast(self.length_normalization_fn(length, self.dtype), self.dtype)

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


class SamplingModule(tf.Module):
    """Decodes greedily or by sampling, with a model given as a function.

    Example:
        >>> table = tf.math.log([[0.0, 0.2, 0.8], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]])
        >>> module = SamplingModule(
        ...     lambda ids, index, cache: (tf.gather(table, ids[:, -1]), cache),
        ...     vocab_size=3, max_decode_length=4, eos_id=1, padded_decode=False,
        ... )
        >>> ids, scores = module.generate(tf.constant([0]), {})
        >>> ids.numpy().tolist()
        [[0, 2, 1]]
    """

    def __init__(
        self,
        symbols_to_logits_fn: beam_search.SymbolsToLogitsFn,
        vocab_size: int,
        max_decode_length: int,
        eos_id: int,
        padded_decode: bool,
        length_normalization_fn: LengthNormalizationFn | None = None,
        top_k: int = 0,
        top_p: float = 1.0,
        sample_temperature: float = 0.0,
        enable_greedy: bool = True,
        dtype: tf.DType = tf.float32,
        decoding_name: str | None = None,
        extra_cache_output: bool = False,
        seed: int | None = None,
    ) -> None:
        """Stores what to do.

        Args:
            symbols_to_logits_fn: The model, as for `beam_search.sequence_beam_search`.
            vocab_size: Number of ids.
            max_decode_length: Largest number of ids after the initial one.
            eos_id: Id that ends a sequence.
            padded_decode: Whether all shapes stay fixed.
            length_normalization_fn: What scores are divided by; None for 1.
            top_k: Most probable ids to draw from; 0 is all.
            top_p: Probability of the ids to draw from; 1 is all. Applied after `top_k`.
            sample_temperature: What logits are divided by, before `top_k`; 0 leaves them.
            enable_greedy: Whether the most probable ids are taken; the former three don't matter.
            dtype: Float type of the scores.
            decoding_name: Name of the module.
            extra_cache_output: Whether `generate` returns the cache after the first step, too.
            seed: Seed of the samples; None draws others in every call.
        """
        super().__init__(name=decoding_name)
        self._vocab_size = vocab_size
        self._predictor = beam_search.FunctionPredictor(
            symbols_to_logits_fn, vocab_size=vocab_size, sees_last_only=padded_decode
        )
        self._extra_cache_output = extra_cache_output
        self._seed = seed
        self._arguments: dict[str, Any] = {
            "rules": decoding_rules.Rules((eos_id,)),
            "alpha": 0.0,
            "max_length": max_decode_length,
            "has_fixed_shapes": padded_decode,
            "dtype": dtype,
            "temperature": 0.0 if enable_greedy else sample_temperature or 1.0,
            "top_k": top_k,
            "top_p": top_p,
            "length_normalization_fn": length_normalization_fn,
        }

    def generate(
        self,
        initial_ids: tf.Tensor,
        initial_cache: Any,
        initial_log_probs: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, ...]:
        """Decodes a batch.

        Args:
            initial_ids: `[B]` int32, the id that every sequence starts with.
            initial_cache: Nested tensors `[B, ...]`.
            initial_log_probs: `[B, 1]`, log-probabilities of what was decoded before; None for 0.

        Returns:
            `(ids, scores)`, `[B, L]` int32 with the initial id and `[B, 1]`, or with
            `extra_cache_output` also the cache after the first step.

        Raises:
            TypeError: If a part of the cache has another float type than the scores.
        """
        dtype = tf.as_dtype(self._arguments["dtype"])
        for part in tf.nest.flatten(initial_cache):
            if part.dtype.is_floating and part.dtype != dtype:
                raise TypeError(
                    f"initial_cache: holds {part.dtype.name}, expected {dtype.name}, as `dtype`."
                )
        sampler = Sampler(
            predictor=self._predictor,
            num_candidates=1,
            seed=build_seed(self._seed),
            initial_log_probs=initial_log_probs,
            **self._arguments,
        )
        ids, scores = sampler.run(initial_ids, initial_cache)
        if not self._extra_cache_output:
            return ids[:, 0], scores
        start = self._predictor.start(initial_cache, 1)
        _, cache = self._predictor.predict(initial_ids[:, None, None], tf.constant(0), start)
        return ids[:, 0], scores, tf.nest.map_structure(lambda part: part[:, 0], cache)
