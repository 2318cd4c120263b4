"""Batches of sentences of similar length, each with about the same number of tokens.

A bucket is a range of lengths; the length of a pair is that of its longer side. A batch holds as
many pairs as fit into the token budget if all were as long as the bucket allows.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from quintain import errors

_FIRST_BOUNDARY = 8
_GROWTH = 1.1


def get_boundaries(max_length: int) -> list[int]:
    """Returns the upper ends of the buckets, exclusive: 8, growing by a tenth, to the maximum.

    Example:
        >>> get_boundaries(12)
        [8, 9, 10, 11, 13]
    """
    boundaries = []
    boundary = _FIRST_BOUNDARY
    while boundary < max_length:
        boundaries.append(boundary)
        boundary = max(boundary + 1, int(boundary * _GROWTH))
    return [*boundaries, max_length + 1]


def get_batch_sizes(boundaries: Sequence[int], token_budget: int) -> list[int]:
    """Returns how many pairs a batch of each bucket holds.

    The budget counts the tokens of the longer side, padding included.

    Raises:
        ConfigError: If the longest sentences do not fit.

    Example:
        >>> get_batch_sizes([8, 9, 10, 11, 13], 100)
        [12, 11, 10, 9, 7]
    """
    sizes = [token_budget // boundary for boundary in boundaries]
    if min(sizes) < 1:
        raise errors.ConfigError(
            f"global_batch_size: got {token_budget} tokens for each replica, but the token budget "
            f"is too small for the longest sentences, which need {max(boundaries)}. Give more, or "
            "a smaller max_seq_length."
        )
    return sizes


@dataclasses.dataclass(frozen=True)
class Batching:
    """Batching of training pairs."""

    boundaries: Sequence[int]
    """Upper ends of the length buckets, exclusive. In batches of one shape, only its length."""

    batch_sizes: Sequence[int]
    """Pairs in a batch of each bucket."""

    padded_length: int | None
    """Length that both sides are padded to. None: the longest of the batch."""

    def batch(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Batches a stream of pairs, `inputs` `[S]` and `targets` `[T]`."""
        if self.padded_length is None:
            return group_by_length(
                dataset, boundaries=self.boundaries, batch_sizes=self.batch_sizes
            )
        return dataset.padded_batch(
            self.batch_sizes[0],
            padded_shapes={"inputs": [self.padded_length], "targets": [self.padded_length]},
            drop_remainder=True,
            name="batch",
        )


def plan(max_length: int, token_budget: int, *, is_static: bool) -> Batching:
    """Returns how training pairs are put together, all in one shape if that `is_static`.

    Raises:
        ConfigError: If the longest sentences do not fit.

    Example:
        >>> plan(64, 24_576, is_static=True).batch_sizes
        [384]
        >>> dynamic = plan(64, 24_576, is_static=False)
        >>> len(dynamic.boundaries), dynamic.boundaries[0], dynamic.boundaries[-1]
        (27, 8, 65)
        >>> dynamic.batch_sizes[0], dynamic.batch_sizes[-1]
        (3072, 378)
    """
    boundaries = [max_length] if is_static else get_boundaries(max_length)
    sizes = get_batch_sizes(boundaries, token_budget)
    return Batching(boundaries, sizes, max_length if is_static else None)


def group_by_length(
    dataset: tf.data.Dataset, *, boundaries: Sequence[int], batch_sizes: Sequence[int]
) -> tf.data.Dataset:
    """Batches a stream of pairs, `inputs` `[S]` and `targets` `[T]`, by length.

    A batch leaves when its bucket is full, so that the order is a little other than that of the
    stream; it is padded with 0 to its longest. The position in the stream, half-full buckets
    included, can be saved and restored. All pairs are shorter than the last boundary.
    """
    bounds = tf.constant(boundaries, tf.int64)
    sizes = tf.constant(batch_sizes, tf.int64)

    def find_bucket(example: dict[str, tf.Tensor]) -> tf.Tensor:
        length = tf.maximum(tf.size(example["inputs"]), tf.size(example["targets"]))
        return tf.searchsorted(bounds, [tf.cast(length, tf.int64)], "right", tf.int64)[0]

    def pad(bucket: tf.Tensor, window: tf.data.Dataset) -> tf.data.Dataset:
        return window.padded_batch(sizes[bucket])

    return dataset.group_by_window(
        key_func=find_bucket, reduce_func=pad, window_size_func=lambda bucket: sizes[bucket]
    )
