"""Packs texts into sequences of a fixed length, so that little of a batch is padding.

Shapes:
    L  tokens of a text
    S  positions of a sequence
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from quintain.nlp.data import bert_vocabulary

Ids = npt.NDArray[np.int32]

_NO_TEXT: Final = -1


def pack(texts: Iterable[Sequence[int] | Ids], *, seq_length: int, sep_id: int) -> Iterator[Ids]:
    """Joins whole texts to sequences, each text followed by `[SEP]`.

    A text that does not fit starts the next sequence. One too long for any sequence is cut into
    pieces; none is lost. An empty text, where a document ends, ends the sequence.

    Args:
        texts: Tokens of each text.
        seq_length: Most tokens of a sequence, without the `[CLS]` before it.
        sep_id: The token `[SEP]`.

    Yields:
        Sequences, no longer than `seq_length`.

    Example:
        >>> [part.tolist() for part in pack([[5], [6, 7], [8]], seq_length=5, sep_id=3)]
        [[5, 3, 6, 7, 3], [8, 3]]
    """
    held: list[int] = []
    for text in texts:
        if len(text) == 0 and held:
            yield np.array(held, np.int32)
            held = []
        for start in range(0, len(text), seq_length - 1):
            piece = [*text[start : start + seq_length - 1], sep_id]
            if held and len(held) + len(piece) > seq_length:
                yield np.array(held, np.int32)
                held = []
            held += [int(token) for token in piece]
    if held:
        yield np.array(held, np.int32)


def pack_stream(
    texts: tf.data.Dataset, *, seq_length: int, vocabulary: bert_vocabulary.BertVocabulary
) -> tf.data.Dataset:
    """Joins a stream of texts to full sequences `[CLS] ... [SEP]`, inside the graph.

    Every text is followed by `[SEP]`, and goes on in the next sequence where one is full. Nothing
    is lost but, in a stream without end, nothing is padding either. The position, tokens that wait
    for the rest of their sequence included, can be saved and restored.

    Args:
        texts: Elements `[L]` int32, the tokens of a text.
        seq_length: Positions of a sequence.
        vocabulary: The vocabulary.

    Returns:
        Elements `[seq_length]` int32, the last one of a stream that ends padded with 0.
    """
    room = seq_length - 2
    cls, sep = (tf.constant([index], tf.int32) for index in (vocabulary.cls_id, vocabulary.sep_id))
    ended = tf.data.Dataset.from_tensors(tf.constant([_NO_TEXT], tf.int32))

    def add(held: tf.Tensor, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        is_end = tf.reduce_any(text == _NO_TEXT)
        held = tf.concat([held, text[: 0 if is_end else tf.size(text)]], axis=0)
        num_held = tf.size(held)
        count = num_held // room
        if is_end:
            count = (num_held + room - 1) // room
            held = tf.pad(held, [[0, count * room - num_held]])
        full = tf.reshape(held[: count * room], [count, room])
        return held[count * room :], full

    def finish(part: tf.Tensor) -> tf.Tensor:
        length = tf.math.count_nonzero(part, dtype=tf.int32)
        # A sequence ends in one `[SEP]`, whether a text ends with it or goes on.
        has_end = tf.reduce_any(part[length - 1 : length] == sep[0])
        tokens = tf.concat([cls, part[:length], sep[: 0 if has_end else 1]], axis=0)
        padded = tf.pad(tokens, [[0, seq_length - tf.size(tokens)]])
        return tf.ensure_shape(padded, [seq_length])

    with_ends = texts.filter(lambda text: tf.size(text) > 0).map(
        lambda text: tf.concat([text, sep], axis=0)
    )
    parts = with_ends.concatenate(ended).scan(tf.zeros([0], tf.int32), add).unbatch()
    return parts.map(finish, num_parallel_calls=tf.data.AUTOTUNE)
