"""Constraints on decoded tokens, for beam search and sampling.

Shapes:
    B  examples in the batch
    K  candidates of each example
    L  ids of a candidate so far, the initial one included, and room for more
    P  longest prefix that an example's output must start with
    R  runs of ids that a candidate has room for
    V  vocabulary size
"""

import dataclasses

import tensorflow as tf

from quintain import errors


@dataclasses.dataclass(frozen=True)
class Rules:
    """Mask of allowed ids: others get a log-probability of minus infinity."""

    eos_ids: tuple[int, ...]
    """Ids that end a sequence."""

    min_length: int = 0
    """Fewest ids of a sequence, its end not counted."""

    no_repeat_ngram_size: int = 0
    """Length of the runs of ids that no sequence holds twice; 0 allows all."""

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            ConfigError: If a number is negative, or there is no id that ends a sequence.
        """
        if not self.eos_ids:
            raise errors.ConfigError("eos_id: got none, expected at least one id.")
        for name in ("min_length", "no_repeat_ngram_size"):
            if getattr(self, name) < 0:
                raise errors.ConfigError(
                    f"{name}: got {getattr(self, name)!r}, expected an integer >= 0."
                )

    def is_end(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns whether each id ends a sequence."""
        is_end = tf.equal(ids, self.eos_ids[0])
        for eos_id in self.eos_ids[1:]:
            is_end = tf.logical_or(is_end, tf.equal(ids, eos_id))
        return is_end

    def apply(
        self, log_probs: tf.Tensor, sequences: tf.Tensor, index: tf.Tensor, prefix: tf.Tensor
    ) -> tf.Tensor:
        """Rules out next ids.

        Args:
            log_probs: `[B, K, V]`, of the next id.
            sequences: `[B, K, L]` int32, ids so far.
            index: Scalar int32: ids so far, the initial one not counted.
            prefix: `[B, P]` int32, padded with 0: what outputs start with. It is exempt from the
                other rules. P may be 0.

        Returns:
            `[B, K, V]`, minus infinity at what is ruled out.
        """
        free = log_probs
        if self.no_repeat_ngram_size:
            log_probs = self._forbid_repeats(log_probs, sequences, index)
        if self.min_length:
            is_end = self.is_end(tf.range(tf.shape(log_probs)[-1]))  # [V]
            log_probs = _exclude(log_probs, is_end & (index < self.min_length))
        if prefix.shape[-1] != 0:
            is_forced, is_next = _follow(prefix, index, tf.shape(log_probs)[-1])
            log_probs = tf.where(is_forced, _exclude(free, ~is_next), log_probs)
        return log_probs

    def _forbid_repeats(
        self, log_probs: tf.Tensor, sequences: tf.Tensor, index: tf.Tensor
    ) -> tf.Tensor:
        size = self.no_repeat_ngram_size
        # Room for at least one whole run, so that short sequences need no case of their own.
        sequences = tf.pad(sequences, [[0, 0], [0, 0], [0, size]])
        num_starts = tf.shape(sequences)[2] - size + 1
        starts = tf.range(num_starts)  # [R]
        # A run is over before the next id comes, and the initial id is not part of it.
        is_repeated = (starts >= 1) & (starts + size - 1 <= index)  # [R]
        is_repeated = tf.broadcast_to(
            is_repeated, tf.concat([tf.shape(sequences)[:2], [num_starts]], axis=0)
        )
        for offset in range(size - 1):
            before = tf.gather(sequences, tf.maximum(index - (size - 2) + offset, 0), axis=2)
            is_repeated &= sequences[:, :, offset : offset + num_starts] == before[..., tf.newaxis]
        ends = sequences[:, :, size - 1 :]  # [B, K, R]
        shape = tf.shape(log_probs)
        rows = tf.range(shape[0] * shape[1])[:, tf.newaxis] + tf.zeros([1, num_starts], tf.int32)
        places = tf.stack([rows, tf.reshape(ends, tf.shape(rows))], axis=-1)  # [B * K, R, 2]
        infinity = tf.constant(float("inf"), log_probs.dtype)
        limits = tf.where(is_repeated, -infinity, infinity)  # [B, K, R]
        flat = tf.reshape(log_probs, [-1, shape[2]])  # [B * K, V]
        limited = tf.tensor_scatter_nd_min(flat, places, tf.reshape(limits, tf.shape(rows)))
        return tf.reshape(limited, shape)


def _exclude(log_probs: tf.Tensor, is_excluded: tf.Tensor) -> tf.Tensor:
    return tf.where(is_excluded, tf.constant(-float("inf"), log_probs.dtype), log_probs)


def _follow(
    prefix: tf.Tensor, index: tf.Tensor, vocab_size: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns whether the prefix says what comes at `index`, `[B, 1, 1]`, and what `[B, 1, V]`."""
    length = tf.shape(prefix)[1]
    forced = tf.gather(prefix, tf.minimum(index, length - 1), axis=1)[:, tf.newaxis, tf.newaxis]
    return (forced != 0) & (index < length), forced == tf.range(vocab_size)
