"""The loop of decoding, for strategies of one's own.

Shapes:
    B  examples in the batch
    L  ids so far, the initial one included
"""

import abc
from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from quintain.modeling import tf_utils

LengthNormalizationFn = Callable[[Any, tf.DType], Any]
"""Takes the length and the float type; returns what log-probabilities are divided by."""

Output = tuple[tf.Tensor, ...]
InternalState = tuple[tf.Tensor, tf.Tensor, tf.Tensor, Any]
InitialState = tuple[dict[str, Any], dict[str, Any]]

_LARGE: Final = 1e7


class StateKeys:
    """Names of what a loop keeps from step to step."""

    CUR_INDEX = "CUR_INDEX"
    """`[]` int32, steps done."""

    ALIVE_SEQ = "ALIVE_SEQ"
    """`[B, L]` int32, sequences that go on."""

    ALIVE_LOG_PROBS = "ALIVE_LOG_PROBS"
    """`[B, 1]`, their log-probabilities."""

    ALIVE_CACHE = "ALIVE_CACHE"
    """Nested tensors, the model's own."""

    INITIAL_OUTPUT_CACHE = "INITIAL_OUTPUT_CACHE"
    """The model's cache after the first step, where it is wanted."""

    FINISHED_SEQ = "FINISHED_SEQ"
    """`[B, L]` int32, sequences that ended, padded with 0."""

    FINISHED_SCORES = "FINISHED_SCORES"
    """`[B, 1]`, their length-normalised log-probabilities."""

    FINISHED_FLAGS = "FINISHED_FLAGS"
    """`[B, 1]` bool, whether there is a finished sequence."""


def log_prob_from_logits(logits: tf.Tensor) -> tf.Tensor:
    """Normalises logits `[..., V]` to log-probabilities."""
    return logits - tf.reduce_logsumexp(logits, axis=-1, keepdims=True)


def shape_list(tensor: tf.Tensor) -> list[Any]:
    """Returns the shape of a tensor: Python numbers, and scalar tensors for unknown dimensions."""
    return tf_utils.get_shape_list(tensor)


def get_shape_keep_last_dim(tensor: tf.Tensor) -> tf.TensorShape:
    """Returns the shape of a tensor with all sizes left open but the last, if that is known."""
    return tf.TensorShape([None] * (tensor.shape.rank - 1) + [tensor.shape[-1]])


def expand_to_same_rank(tensor: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Adds dimensions of size 1 at the end, until a tensor has as many as the target.

    Raises:
        ValueError: If the rank of one is unknown.
    """
    for name, value in (("tensor", tensor), ("target", target)):
        if value.shape.rank is None:
            raise ValueError(f"{name}: got a tensor of unknown rank, expected a known one.")
    missing = target.shape.rank - tensor.shape.rank
    return tf.reshape(tensor, tf.concat([tf.shape(tensor), [1] * missing], axis=0))


class DecodingModule(tf.Module, metaclass=abc.ABCMeta):
    """A strategy of decoding: subclasses say how sequences grow, and when they end."""

    padded_decode: bool = False
    """Whether all shapes stay fixed, as XLA needs."""

    def __init__(
        self,
        length_normalization_fn: LengthNormalizationFn | None,
        dtype: tf.DType = tf.float32,
        decoding_name: str | None = None,
        extra_cache_output: bool = False,
    ) -> None:
        super().__init__()
        self.length_normalization_fn = length_normalization_fn
        self.dtype = tf.as_dtype(dtype)
        self.decoding_name = decoding_name
        self.extra_cache_output = extra_cache_output

    def generate(
        self,
        initial_ids: tf.Tensor,
        initial_cache: Any,
        initial_log_probs: tf.Tensor | None = None,
    ) -> Output:
        """Decodes a batch.

        Args:
            initial_ids: `[B]` int32, the id that every sequence starts with.
            initial_cache: Nested tensors `[B, ...]`.
            initial_log_probs: `[B, 1]`, log-probabilities of what was decoded before; None for 0.

        Returns:
            What `_process_finished_state` returns: sequences, scores and, with
            `extra_cache_output`, the cache after the first step.
        """
        is_fixed = self.padded_decode and initial_ids.shape[0] is not None
        batch_size = initial_ids.shape[0] if is_fixed else tf.shape(initial_ids)[0]
        state, shapes = self._create_initial_state(
            initial_ids, initial_cache, batch_size, initial_log_probs
        )
        (state,) = tf.while_loop(
            self._continue_search,
            lambda state: [self._step(state, batch_size)],
            loop_vars=[state],
            shape_invariants=[shapes],
            parallel_iterations=1,
            name=self.decoding_name,
        )
        return self._process_finished_state(tf.nest.map_structure(tf.stop_gradient, state))

    def _step(self, state: dict[str, Any], batch_size: Any) -> dict[str, Any]:
        sequences, log_probs, ids, cache = self._grow_alive_seq(state, batch_size)
        flags = self._finished_flags(ids, state)
        new = {
            StateKeys.CUR_INDEX: state[StateKeys.CUR_INDEX] + 1,
            **self._get_new_alive_state(sequences, log_probs, flags, cache),
            **self._get_new_finished_state(state, sequences, log_probs, flags, batch_size),
        }
        if self.extra_cache_output:
            is_first = state[StateKeys.CUR_INDEX] == 0
            new[StateKeys.INITIAL_OUTPUT_CACHE] = tf.nest.map_structure(
                lambda old, now: tf.cond(is_first, lambda: now, lambda: old),
                state[StateKeys.INITIAL_OUTPUT_CACHE],
                cache,
            )
        return new

    @abc.abstractmethod
    def _create_initial_state(
        self,
        initial_ids: tf.Tensor,
        initial_cache: Any,
        batch_size: Any,
        initial_log_probs: tf.Tensor | None = None,
    ) -> InitialState:
        """Returns the state before the first step by `StateKeys`, and its shape invariants."""

    @abc.abstractmethod
    def _grow_alive_seq(self, state: dict[str, Any], batch_size: Any) -> InternalState:
        """Adds an id to the sequences; returns them, log-probabilities, ids and the new cache."""

    @abc.abstractmethod
    def _get_new_alive_state(
        self, new_seq: tf.Tensor, new_log_probs: tf.Tensor, new_finished_flags: tf.Tensor,
        new_cache: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Returns the part of the state that is about sequences that go on."""

    @abc.abstractmethod
    def _get_new_finished_state(
        self, state: dict[str, Any], new_seq: tf.Tensor, new_log_probs: tf.Tensor,
        new_finished_flags: tf.Tensor, batch_size: Any,
    ) -> dict[str, tf.Tensor]:  # fmt: skip
        """Returns the part of the state that is about sequences that ended."""

    @abc.abstractmethod
    def _process_finished_state(self, finished_state: dict[str, Any]) -> Output:
        """Returns the outputs after the last step."""

    @abc.abstractmethod
    def _continue_search(self, state: dict[str, Any]) -> tf.Tensor:
        """Returns whether there is another step."""

    @abc.abstractmethod
    def _finished_flags(self, topk_ids: tf.Tensor, state: dict[str, Any]) -> tf.Tensor:
        """Returns which sequences have ended, after `topk_ids` `[B, 1]` were added."""

    def inf(self) -> float:
        """Returns a number that is large, and finite in the type of the scores."""
        return float(min(_LARGE, self.dtype.max))
