"""Packing of texts into sequences of a fixed length, so that little of a batch is padding.

Shapes:
    L  tokens of a text
    B  sequences
    S  positions of a sequence
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from quintain.nlp.data.masked import bert_vocabulary

Ids = npt.NDArray[np.int32]

_NO_TEXT: Final = -1
_OTHER_RATE: Final = 0.5


def pack(
    texts: Iterable[Sequence[int] | Ids], *, seq_length: int, sep_id: int | None
) -> Iterator[Ids]:
    """Joins whole texts to sequences of `seq_length` at most, each text followed by `[SEP]`.

    A text that does not fit starts the next sequence. One too long for any sequence is cut into
    pieces; none is lost. An empty text, where a document ends, ends the sequence. Without a
    `sep_id` texts are joined as they are.

    Example:
        >>> [part.tolist() for part in pack([[5], [6, 7], [8]], seq_length=5, sep_id=3)]
        [[5, 3, 6, 7, 3], [8, 3]]
    """
    end = [] if sep_id is None else [sep_id]
    held: list[int] = []
    for text in texts:
        if len(text) == 0 and held:
            yield np.array(held, np.int32)
            held = []
        for start in range(0, len(text), seq_length - len(end)):
            piece = [*text[start : start + seq_length - len(end)], *end]
            if held and len(held) + len(piece) > seq_length:
                yield np.array(held, np.int32)
                held = []
            held += [int(token) for token in piece]
    if held:
        yield np.array(held, np.int32)


def cut_stream(texts: tf.data.Dataset, *, length: int) -> tf.data.Dataset:
    """Joins a stream of texts `[L]` int32 and cuts it into parts `[length]`, inside the graph.

    Nothing is lost; the last part of a stream that ends is padded with 0. The position, tokens that
    wait for the rest of their part included, can be saved and restored.
    """
    ended = tf.data.Dataset.from_tensors(tf.constant([_NO_TEXT], tf.int32))

    def add(held: tf.Tensor, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        is_end = tf.reduce_any(text == _NO_TEXT)
        held = tf.concat([held, text[: 0 if is_end else tf.size(text)]], axis=0)
        num_held = tf.size(held)
        count = num_held // length
        if is_end:
            count = (num_held + length - 1) // length
            held = tf.pad(held, [[0, count * length - num_held]])
        full = tf.reshape(held[: count * length], [count, length])
        return held[count * length :], full

    stream = texts.concatenate(ended).scan(tf.zeros([0], tf.int32), add)
    return stream.unbatch()


def pack_stream(
    texts: tf.data.Dataset, *, seq_length: int, vocabulary: bert_vocabulary.BertVocabulary
) -> tf.data.Dataset:
    """Joins a stream of texts `[L]` int32 to full sequences `[CLS] ... [SEP]`, inside the graph.

    Every text is followed by `[SEP]`, and goes on in the next sequence where one is full.

    Returns:
        Elements `[seq_length]` int32, the last one of a stream that ends padded with 0.
    """
    cls, sep = (tf.constant([index], tf.int32) for index in (vocabulary.cls_id, vocabulary.sep_id))

    def finish(part: tf.Tensor) -> tf.Tensor:
        part = part[tf.cast(part[0] == sep[0], tf.int32) :]  # Of a text that ended just before.
        length = tf.math.count_nonzero(part, dtype=tf.int32)
        # A sequence ends in one `[SEP]`, whether a text ends with it or goes on.
        has_end = tf.reduce_any(part[length - 1 : length] == sep[0])
        tokens = tf.concat([cls, part[:length], sep[: 0 if has_end else 1]], axis=0)
        padded = tf.pad(tokens, [[0, seq_length - tf.size(tokens)]])
        return tf.ensure_shape(padded, [seq_length])

    with_ends = texts.filter(lambda text: tf.size(text) > 0).map(
        lambda text: tf.concat([text, sep], axis=0)
    )
    parts = cut_stream(with_ends, length=seq_length - 2)
    parts = parts.filter(lambda part: tf.reduce_any((part != 0) & (part != sep[0])))
    return parts.map(finish, num_parallel_calls=tf.data.AUTOTUNE)


def pair_parts(
    parts: tf.Tensor, seed: tf.Tensor, *, vocabulary: bert_vocabulary.BertVocabulary
) -> dict[str, tf.Tensor]:
    """Makes pairs of segments of which the second follows the first, or comes from elsewhere.

    Each part is cut in two at a random place; in half of the pairs the second half is that of
    another part.

    Args:
        parts: `[B, S - 3]` int32, full parts; at least two of them.
        seed: `[2]` integer.
        vocabulary: Has the special tokens.

    Returns:
        `input_word_ids` `[B, S]`, `[CLS] first [SEP] second [SEP]`; `input_type_ids` `[B, S]`, 0
        and 1; and `next_sentence_labels` `[B, 1]`, 1 where the second does not follow; all int32.

    Source:
        Devlin et al., 2019, section 3.1 (https://arxiv.org/abs/1810.04805).
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    count, length = tf.shape(parts)[0], tf.shape(parts)[1]
    ends = tf.random.stateless_uniform([count, 1], seeds[0], 1, length, tf.int32)
    shift = tf.random.stateless_uniform([], seeds[1], 1, tf.maximum(count, 2), tf.int32)
    is_other = tf.random.stateless_uniform([count, 1], seeds[2]) < _OTHER_RATE
    is_other &= count > 1
    seconds = tf.where(is_other, tf.roll(parts, shift, axis=0), parts)
    places = tf.range(length + 3)[tf.newaxis, :]
    no_token = tf.zeros([count, 1], tf.int32)
    first = tf.concat([no_token + vocabulary.cls_id, parts, no_token, no_token], axis=1)
    second = tf.concat([no_token, no_token, seconds, no_token + vocabulary.sep_id], axis=1)
    ids = tf.where(places <= ends, first, second)
    return {
        "input_word_ids": tf.where(places == ends + 1, vocabulary.sep_id, ids),
        "input_type_ids": tf.cast(places > ends + 1, tf.int32),
        "next_sentence_labels": tf.cast(is_other, tf.int32),
    }
