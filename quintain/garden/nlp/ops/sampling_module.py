"""Draws sequences from a model given as a function, or follows its most probable ids.

Shapes:
    B  examples in the batch
    L  ids of a sequence so far, the initial one included
    V  vocabulary size
"""

import functools
from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.garden.nlp.ops import decoding_module
from quintain.nlp.modeling.ops import sampler

_Keys = decoding_module.StateKeys


greedy = sampler.greedy
sample_logits_with_temperature = sampler.sample_logits_with_temperature
sample_top_k = sampler.sample_top_k
sample_top_p = sampler.sample_top_p
set_tensor_by_indices_to_value = sampler.set_tensor_by_indices_to_value


def scatter_values_on_batch_indices(values: tf.Tensor, batch_indices: tf.Tensor) -> tf.Tensor:
    """Puts each value `[B, V]` at its row's place `batch_indices` `[B, V]`, a permutation."""
    rows = tf.broadcast_to(tf.range(tf.shape(values)[0])[:, tf.newaxis], tf.shape(batch_indices))
    places = tf.stack([rows, tf.cast(batch_indices, tf.int32)], axis=-1)  # [B, V, 2]
    return tf.scatter_nd(places, values, tf.shape(values))


class SamplingModule(decoding_module.DecodingModule):
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
        symbols_to_logits_fn: Any,
        vocab_size: int,
        max_decode_length: int,
        eos_id: int,
        padded_decode: bool,
        length_normalization_fn: decoding_module.LengthNormalizationFn | None = None,
        top_k: int = 0,
        top_p: float = 1.0,
        sample_temperature: float = 0.0,
        enable_greedy: bool = True,
        dtype: tf.DType = tf.float32,
        decoding_name: str | None = None,
        extra_cache_output: bool = False,
        *,
        seed: int | None = None,
    ) -> None:
        """Checks the options.

        Raises:
            ConfigError: If `top_k`, `top_p` or `sample_temperature` is out of its range.
        """
        super().__init__(length_normalization_fn, dtype, decoding_name, extra_cache_output)
        for name, given in (
            ("top_k", top_k),
            ("top_p", top_p),
            ("sample_temperature", sample_temperature),
        ):
            if isinstance(given, int | float) and not given >= 0:
                raise errors.ConfigError(f"{name}: got {given!r}, expected a number >= 0.")
        self.symbols_to_logits_fn = symbols_to_logits_fn
        self.vocab_size = vocab_size
        self.max_decode_length = max_decode_length
        self.eos_id = eos_id
        self.padded_decode = padded_decode
        self.top_k = tf.convert_to_tensor(top_k, tf.int32)
        self.top_p = tf.convert_to_tensor(top_p, tf.float32)
        self.sample_temperature = tf.convert_to_tensor(sample_temperature, tf.float32)
        self.enable_greedy = enable_greedy
        self.seed = seed

    @override
    def _create_initial_state(
        self,
        initial_ids: tf.Tensor,
        initial_cache: Any,
        batch_size: Any,
        initial_log_probs: tf.Tensor | None = None,
    ) -> decoding_module.InitialState:
        for part in tf.nest.flatten(initial_cache):
            if part.dtype.is_floating and part.dtype != self.dtype:
                raise TypeError(
                    f"initial_cache: holds {part.dtype.name}, expected {self.dtype.name}, as "
                    "`dtype`."
                )
        ids = initial_ids[:, tf.newaxis]  # [B, 1]
        if self.padded_decode:
            ids = tf.tile(ids, [1, self.max_decode_length + 1])
        if initial_log_probs is None:
            initial_log_probs = tf.zeros([batch_size, 1], self.dtype)
        state = {
            _Keys.CUR_INDEX: tf.constant(0),
            _Keys.ALIVE_SEQ: ids,
            _Keys.ALIVE_LOG_PROBS: initial_log_probs,
            _Keys.ALIVE_CACHE: initial_cache,
            _Keys.FINISHED_SEQ: tf.zeros_like(ids),
            _Keys.FINISHED_SCORES: tf.zeros([batch_size, 1], self.dtype),
            _Keys.FINISHED_FLAGS: tf.zeros([batch_size, 1], tf.bool),
        }
        if self.extra_cache_output:
            state[_Keys.INITIAL_OUTPUT_CACHE] = initial_cache
        shapes = tf.nest.map_structure(
            (lambda part: part.shape)
            if self.padded_decode
            else decoding_module.get_shape_keep_last_dim,
            {name: value for name, value in state.items() if name != _Keys.CUR_INDEX},
        )
        shapes[_Keys.CUR_INDEX] = tf.TensorShape([])
        if not self.padded_decode:
            shapes[_Keys.ALIVE_SEQ] = shapes[_Keys.FINISHED_SEQ] = tf.TensorShape([None, None])
        return state, shapes

    @override
    def _grow_alive_seq(
        self, state: dict[str, Any], batch_size: Any
    ) -> decoding_module.InternalState:
        index, sequences = state[_Keys.CUR_INDEX], state[_Keys.ALIVE_SEQ]
        ids = sequences[:, index : index + 1] if self.padded_decode else sequences
        logits, cache = self.symbols_to_logits_fn(ids, index, state[_Keys.ALIVE_CACHE])
        log_probs = decoding_module.log_prob_from_logits(tf.cast(logits, self.dtype))  # [B, V]
        totals = log_probs + state[_Keys.ALIVE_LOG_PROBS]  # [B, V]
        if self.enable_greedy:
            chosen_log_probs, chosen = greedy(totals)  # [B, 1]
        else:
            chosen = self._draw(logits, index)  # [B, 1]
            chosen_log_probs = tf.gather(totals, chosen, axis=1, batch_dims=1)
        if self.padded_decode:
            is_next = tf.range(self.max_decode_length + 1) == index + 1  # [L]
            sequences = tf.where(is_next, chosen, sequences)
        else:
            sequences = tf.concat([sequences, chosen], axis=1)
        return sequences, chosen_log_probs, chosen, cache

    def _draw(self, logits: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Returns ids `[B, 1]` for logits `[B, V]`."""
        for is_wanted, filter_fn, option in (
            (self.sample_temperature > 0, sample_logits_with_temperature, self.sample_temperature),
            (self.top_k > 0, sample_top_k, self.top_k),
            (self.top_p < 1, sample_top_p, self.top_p),
        ):
            filtered = functools.partial(filter_fn, logits, option)
            logits = tf.cond(is_wanted, filtered, functools.partial(tf.identity, logits))
        if self.seed is None:
            return tf.random.categorical(logits, num_samples=1, dtype=tf.int32)
        seed = tf.stack([self.seed % 2**31, index])
        return tf.random.stateless_categorical(logits, 1, seed, dtype=tf.int32)

    @override
    def _get_new_alive_state(
        self, new_seq: tf.Tensor, new_log_probs: tf.Tensor, new_finished_flags: tf.Tensor,
        new_cache: Any,
    ) -> dict[str, Any]:  # fmt: skip
        return {
            _Keys.ALIVE_SEQ: tf.where(new_finished_flags, 0, new_seq),
            _Keys.ALIVE_LOG_PROBS: new_log_probs,
            _Keys.ALIVE_CACHE: new_cache,
        }

    @override
    def _get_new_finished_state(
        self, state: dict[str, Any], new_seq: tf.Tensor, new_log_probs: tf.Tensor,
        new_finished_flags: tf.Tensor, batch_size: Any,
    ) -> dict[str, tf.Tensor]:  # fmt: skip
        finished, was_finished = state[_Keys.FINISHED_SEQ], state[_Keys.FINISHED_FLAGS]
        if not self.padded_decode:
            finished = tf.pad(finished, [[0, 0], [0, 1]])
        scores = self._normalize(new_log_probs, state[_Keys.CUR_INDEX] + 1)
        is_new = new_finished_flags & ~was_finished  # [B, 1]
        return {
            _Keys.FINISHED_SEQ: tf.where(is_new, new_seq, finished),
            _Keys.FINISHED_SCORES: tf.where(is_new, scores, state[_Keys.FINISHED_SCORES]),
            _Keys.FINISHED_FLAGS: new_finished_flags,
        }

    @override
    def _process_finished_state(self, finished_state: dict[str, Any]) -> decoding_module.Output:
        is_finished = finished_state[_Keys.FINISHED_FLAGS]
        alive = self._normalize(finished_state[_Keys.ALIVE_LOG_PROBS], self.max_decode_length + 1)
        outputs = (
            tf.where(
                is_finished, finished_state[_Keys.FINISHED_SEQ], finished_state[_Keys.ALIVE_SEQ]
            ),
            tf.where(is_finished, finished_state[_Keys.FINISHED_SCORES], alive),
        )
        if not self.extra_cache_output:
            return outputs
        return (*outputs, finished_state[_Keys.INITIAL_OUTPUT_CACHE])

    def _normalize(self, log_probs: tf.Tensor, length: Any) -> tf.Tensor:
        if self.length_normalization_fn is None:
            return log_probs
        return log_probs / tf.cast(self.length_normalization_fn(length, self.dtype), self.dtype)

    @override
    def _continue_search(self, state: dict[str, Any]) -> tf.Tensor:
        is_all_finished = tf.reduce_all(state[_Keys.FINISHED_FLAGS])
        return (state[_Keys.CUR_INDEX] < self.max_decode_length) & ~is_all_finished

    @override
    def _finished_flags(self, topk_ids: tf.Tensor, state: dict[str, Any]) -> tf.Tensor:
        return tf.equal(topk_ids, self.eos_id) | state[_Keys.FINISHED_FLAGS]
