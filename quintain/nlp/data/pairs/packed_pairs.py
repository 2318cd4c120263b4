"""Tokenised sentence pairs in memory, and the order in which training and evaluation see them.

All tokens of a corpus lie in two flat arrays, so that a pass costs no Python, no tokenising and no
shuffle buffer. The order of every epoch is computed from `(seed, epoch)`: the position of a run is
two counters, a checkpoint of it a few kilobytes, and a restored iterator goes on exactly.

Shapes:
    N  pairs
    B  pairs in a batch
    S  source tokens, EOS included; T  target tokens, EOS included
"""

import dataclasses
import logging
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.input import input_reader
from quintain.nlp.data import tokenizers

_CHUNK = 16_384
_WARNING_RATIO = 0.01

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class PackedPairs:
    """Token ids of many sentence pairs."""

    sources: tf.RaggedTensor
    """`[N, S]` int32, on the host."""

    targets: tf.RaggedTensor
    """`[N, T]` int32, on the host."""

    unique_ids: np.ndarray
    """`[N]` int64, the number of each pair in the whole corpus."""

    @property
    def lengths(self) -> np.ndarray:
        """`[N, 2]` int64, tokens of source and target."""
        return np.stack(
            [self.sources.row_lengths().numpy(), self.targets.row_lengths().numpy()], axis=1
        )


def pack_for_training(
    pairs: Sequence[tuple[str, str]],
    tokenizer: tokenizers.SentencePieceTokenizer | tokenizers.Sides,
    *,
    max_length: int,
) -> PackedPairs:
    """Tokenises pairs and leaves out those with a side longer than `max_length`, EOS included.

    The log says how many pairs are longer, in a warning if it is more than one in a hundred.

    Raises:
        DataError: If all pairs are too long, or there are none.
    """
    if not pairs:
        raise errors.DataError("input_path: no sentence pairs. Check the path.")
    limit = max_length * tokenizers.MAX_CHARACTERS_PER_TOKEN
    candidates = [pair for pair in pairs if max(len(pair[0]), len(pair[1])) <= limit]
    packed = _pack(candidates, tokenizer)
    lengths = packed.lengths
    # A text of which the vocabulary keeps nothing has only its EOS.
    is_usable = np.all((lengths > 1) & (lengths <= max_length), axis=1)
    num_dropped = len(pairs) - int(np.sum(is_usable))
    if num_dropped == len(pairs):
        raise errors.DataError(
            f"max_seq_length: got {max_length}, but all {len(pairs)} training pairs are longer, or "
            "have no token on one side. "
            "Give a larger max_seq_length, or a vocabulary that fits the data."
        )
    _log_share(
        "Left out %d of %d training pairs (%.1f %%)", num_dropped, len(pairs),
        f"with more than max_seq_length={max_length} tokens on one side, or with none.",
    )  # fmt: skip
    kept = np.flatnonzero(is_usable)
    with tf.device("CPU:0"):
        return PackedPairs(
            sources=tf.gather(packed.sources, kept),
            targets=tf.gather(packed.targets, kept),
            unique_ids=packed.unique_ids[kept],
        )


def pack_for_evaluation(
    pairs: Sequence[tuple[str, str]],
    tokenizer: tokenizers.SentencePieceTokenizer | tokenizers.Sides,
    *,
    max_length: int,
) -> PackedPairs:
    """Tokenises pairs, cutting sides longer than `max_length` so that they still end with EOS.

    Only the first `tokenizers.MAX_CHARACTERS_PER_TOKEN` characters for each token are looked at.
    The log says how many pairs are cut, in a warning if it is more than one in a hundred.
    """
    if not pairs:
        raise errors.DataError("input_path: no sentence pairs. Check the path.")
    limit = max_length * tokenizers.MAX_CHARACTERS_PER_TOKEN
    packed = _pack([(source[:limit], target[:limit]) for source, target in pairs], tokenizer)
    cut = np.flatnonzero(np.any(packed.lengths > max_length, axis=1))
    _log_share(
        "Cut %d of %d evaluation pairs (%.1f %%)", len(cut), len(pairs),
        f"to max_seq_length={max_length} tokens; the first is number {cut[:1].sum() + 1}.",
    )  # fmt: skip

    def truncate(ids: tf.RaggedTensor) -> tf.RaggedTensor:
        return tf.concat([ids[:, :-1][:, : max_length - 1], ids[:, -1:]], axis=1)

    with tf.device("CPU:0"):
        return dataclasses.replace(
            packed, sources=truncate(packed.sources), targets=truncate(packed.targets)
        )


def _log_share(start: str, count: int, total: int, end: str) -> None:
    if count:
        level = logging.WARNING if count > _WARNING_RATIO * total else logging.INFO
        _logger.log(level, "%s %s", start % (count, total, 100 * count / total), end)


def _pack(
    pairs: Sequence[tuple[str, str]],
    tokenizer: tokenizers.SentencePieceTokenizer | tokenizers.Sides,
) -> PackedPairs:
    sides = []
    with tf.device("CPU:0"):
        for side, side_tokenizer in enumerate(tokenizers.both_sides(tokenizer)):
            chunks = [
                side_tokenizer.tokenize(
                    tf.constant([pair[side] for pair in pairs[i : i + _CHUNK]], tf.string)
                )
                for i in range(0, max(len(pairs), 1), _CHUNK)
            ]
            sides.append(tf.concat(chunks, axis=0))
    return PackedPairs(sides[0], sides[1], np.arange(len(pairs), dtype=np.int64))


def shard(packed: PackedPairs, *, num_shards: int, index: int) -> PackedPairs:
    """Returns every `num_shards`-th pair, starting with pair `index`."""
    with tf.device("CPU:0"):
        return PackedPairs(
            packed.sources[index::num_shards],
            packed.targets[index::num_shards],
            packed.unique_ids[index::num_shards],
        )


@tf.autograph.experimental.do_not_convert  # Rewriting it takes longer than all the rest.
def build_evaluation_dataset(
    packed: PackedPairs,
    *,
    batch_size: int,
    padded_length: int | None,
    has_unique_id: bool = True,
) -> tf.data.Dataset:
    """Returns every pair once, in order; the last batch may be smaller.

    Sides are padded to `padded_length`, or to the longest of the batch.

    Returns:
        `inputs` `[B, S]` int32, `targets` `[B, T]` int32, and `unique_id` `[B]` int32 if asked for.
    """
    gather = _build_gather(packed, padded_length, has_unique_id=has_unique_id)
    dataset = tf.data.Dataset.range(len(packed.unique_ids)).batch(batch_size)
    return dataset.map(gather, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def build_evaluation_examples(packed: PackedPairs, has_unique_id: bool) -> tf.data.Dataset:
    """Returns every pair once, in order, one by one: `inputs` `[S]` and `targets` `[T]`, int32.

    With `has_unique_id` they have their number, `unique_id` int32.
    """
    return build_evaluation_dataset(
        packed, batch_size=1, padded_length=None, has_unique_id=has_unique_id
    ).unbatch()


@tf.autograph.experimental.do_not_convert
def build_static_training_dataset(
    packed: PackedPairs, *, batch_size: int, padded_length: int, seed: int
) -> tf.data.Dataset:
    """Returns endless batches of one fixed shape, reshuffled in every epoch.

    Epochs follow each other without a seam, so that no pair is ever left out.

    Returns:
        `inputs` and `targets`, both `[batch_size, padded_length]` int32.
    """
    dataset = _draw_rows(packed, seed).batch(batch_size, drop_remainder=True)
    gather = _build_gather(packed, padded_length, has_unique_id=False)
    return dataset.map(gather, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


@tf.autograph.experimental.do_not_convert
def build_example_dataset(packed: PackedPairs, *, seed: int) -> tf.data.Dataset:
    """Returns single pairs without end, every pair once in an epoch, in another order each.

    Returns:
        `inputs` `[S]` and `targets` `[T]`, int32.
    """

    def take(row: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"inputs": packed.sources[row], "targets": packed.targets[row]}

    return _draw_rows(packed, seed).map(take)


def _draw_rows(packed: PackedPairs, seed: int) -> tf.data.Dataset:
    """Returns the numbers of all pairs without end, each once in an epoch."""
    num_pairs = len(packed.unique_ids)

    @tf.autograph.experimental.do_not_convert
    def draw_order(epoch: tf.Tensor) -> tf.data.Dataset:
        places = input_reader.draw_uniform(num_pairs, seed=seed, epoch=epoch)
        return tf.data.Dataset.from_tensor_slices(tf.argsort(places, stable=True))

    return tf.data.Dataset.counter().flat_map(draw_order)


@tf.autograph.experimental.do_not_convert
def build_dynamic_training_dataset(
    packed: PackedPairs,
    *,
    boundaries: Sequence[int],
    batch_sizes: Sequence[int],
    seed: int,
) -> tf.data.Dataset:
    """Returns endless batches of pairs of similar length, in another composition every epoch.

    Every epoch holds every pair once. What does not fill a batch of its bucket goes into the next
    longer one. Boundaries are exclusive; batches have the sizes of their buckets at most.

    Returns:
        `inputs` `[B, S]` and `targets` `[B, T]`, int32, padded with 0 to the longest of the batch.
    """
    lengths = packed.lengths
    buckets = np.searchsorted(boundaries, lengths.max(axis=1), side="right")
    sizes = _plan_batches(np.bincount(buckets, minlength=len(batch_sizes)), batch_sizes)
    with tf.device("CPU:0"):
        bucket_of_pair = tf.constant(buckets, tf.float64)
        batch_ends = tf.constant(np.cumsum(sizes), tf.int64)
        batch_starts = tf.constant(np.cumsum(sizes) - sizes, tf.int64)

    def draw_batches(epoch: tf.Tensor) -> tf.data.Dataset:
        place_in_bucket = input_reader.draw_uniform(len(lengths), seed=seed, epoch=epoch)
        order = tf.argsort(bucket_of_pair + place_in_bucket, stable=True)
        turns = input_reader.draw_uniform(len(sizes), seed=seed, epoch=epoch, stream=1)
        turns = tf.argsort(turns, stable=True)
        return tf.data.Dataset.from_tensor_slices(turns).map(
            lambda batch: order[batch_starts[batch] : batch_ends[batch]]
        )

    dataset = tf.data.Dataset.counter().flat_map(draw_batches)
    gather = _build_gather(packed, padded_length=None, has_unique_id=False)
    return dataset.map(gather, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _plan_batches(counts: np.ndarray, batch_sizes: Sequence[int]) -> np.ndarray:
    """Returns the sizes of an epoch's batches, for so many pairs in each bucket, sorted by bucket.

    The last ones are evened out, so that no epoch has a batch of a single odd pair.
    """
    sizes: list[int] = []
    last_bucket = int(np.flatnonzero(counts)[-1])
    carried = 0
    for bucket in range(last_bucket):
        num_full, carried = divmod(carried + int(counts[bucket]), batch_sizes[bucket])
        sizes += [batch_sizes[bucket]] * num_full
    rest = carried + int(counts[last_bucket])
    num_batches = -(-rest // batch_sizes[last_bucket])
    sizes += [len(part) for part in np.array_split(np.arange(rest), num_batches)]
    if len(sizes) > 1:
        moved = min((sizes[-2] - sizes[-1]) // 2, batch_sizes[last_bucket] - sizes[-1])
        sizes[-2:] = [sizes[-2] - moved, sizes[-1] + moved]
    return np.array(sizes, np.int64)


def _build_gather(
    packed: PackedPairs, padded_length: int | None, *, has_unique_id: bool
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Returns the function that maps the numbers `[B]` of a batch's pairs to padded tokens."""
    shape = [None, padded_length]
    with tf.device("CPU:0"):
        unique_ids = tf.constant(packed.unique_ids, tf.int32)

    @tf.autograph.experimental.do_not_convert
    def gather(rows: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = {}
        for name, ids in (("inputs", packed.sources), ("targets", packed.targets)):
            tokens = tf.gather(ids, rows).to_tensor(tokenizers.PAD_ID, shape=shape)
            batch[name] = tf.ensure_shape(tokens, [rows.shape[0], padded_length])
        if has_unique_id:
            batch["unique_id"] = tf.gather(unique_ids, rows)
        return batch

    return gather
