"""Sentence pairs of a batch of documents, drawn in the graph.

Shapes:
    D  documents in the batch
    N  sentences of all documents
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

RandomFn = Callable[..., tf.Tensor]
"""Draws uniform numbers: takes `shape`, `minval`, `maxval` and `dtype`, as `tf.random.uniform`."""


def get_next_sentence_labels(
    sentences: tf.RaggedTensor,
    random_threshold: float = 0.5,
    random_fn: RandomFn = tf.random.uniform,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Pairs sentences with the next one or with one of another document.

    Args:
        sentences: `[D, (sentences)]` string; two documents at least.
        random_threshold: Share of the sentences that get the next one, if they have one. The last
            of a document gets a random one.
        random_fn: Draws numbers.

    Returns:
        The other sentences and whether each is the next one, bool; both as `sentences`.

    Source:
        Devlin et al., 2019, section 3.1 (https://arxiv.org/abs/1810.04805).
    """
    places = _Places(sentences)
    others = _draw_elsewhere(places, random_fn)  # [N, 2]
    following = tf.stack([places.documents, places.positions + 1], axis=1)  # [N, 2]
    is_random = (_draw(places, random_fn) > random_threshold) | places.is_last
    # What is read must exist, also where it is not used.
    chosen = tf.where(is_random[:, tf.newaxis], others, following)
    return places.gather(chosen), places.with_values(~is_random)


def get_sentence_order_labels(
    sentences: tf.RaggedTensor,
    random_threshold: float = 0.5,
    random_next_threshold: float = 0.5,
    random_fn: RandomFn = tf.random.uniform,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Pairs sentences with an earlier one, a later one, or one of another document.

    Args:
        sentences: `[D, (sentences)]` string; two documents at least.
        random_threshold: Share of a later sentence, against one of another document. The last of a
            document gets the latter.
        random_next_threshold: Share of an earlier sentence, against both of these. The first of a
            document gets one of these.
        random_fn: Draws numbers.

    Returns:
        The other sentences, and whether each is a later one or of another document, bool; both as
        `sentences`.

    Source:
        Lan et al., 2020, section 3.1 (https://arxiv.org/abs/1909.11942).
    """
    places = _Places(sentences)
    earlier = _draw_integers(tf.zeros_like(places.positions), places.positions, random_fn)
    later = _draw_integers(places.positions + 1, places.lengths, random_fn)
    earlier, later = (tf.stack([places.documents, one], axis=1) for one in (earlier, later))
    others = _draw_elsewhere(places, random_fn)  # [N, 2]
    is_random = (_draw(places, random_fn) > random_threshold) | places.is_last
    is_first = places.positions == 0
    is_not_earlier = (_draw(places, random_fn) > random_next_threshold) | is_first
    chosen = tf.where(is_random[:, tf.newaxis], others, later)
    chosen = tf.where(is_not_earlier[:, tf.newaxis], chosen, earlier)
    return places.gather(chosen), places.with_values(is_not_earlier)


class _Places:
    """Positions of the sentences of a batch of documents."""

    def __init__(self, sentences: tf.RaggedTensor) -> None:
        self._sentences = sentences
        self.all_lengths = sentences.row_lengths()  # [D]
        self.documents = sentences.value_rowids()  # [N]
        self.positions = tf.ragged.range(self.all_lengths).flat_values  # [N]
        self.lengths = tf.gather(self.all_lengths, self.documents)  # [N]
        self.is_last = self.positions == self.lengths - 1  # [N]

    def with_values(self, values: tf.Tensor) -> tf.RaggedTensor:
        """Returns `[N]` as `[D, (sentences)]`."""
        return self._sentences.with_values(values)

    def gather(self, places: tf.Tensor) -> tf.RaggedTensor:
        """Returns the sentences at places `[N, 2]`: documents, and positions in them."""
        starts = tf.gather(self._sentences.row_starts(), places[:, 0])  # [N]
        return self.with_values(tf.gather(self._sentences.values, starts + places[:, 1]))


def _draw(places: _Places, random_fn: RandomFn) -> tf.Tensor:
    """Returns `[N]` float32 from 0 to 1."""
    return random_fn(shape=tf.shape(places.positions), minval=0, maxval=1, dtype=tf.float32)


def _draw_integers(least: tf.Tensor, end: tf.Tensor, random_fn: RandomFn) -> tf.Tensor:
    """Returns integers from `least` to before `end`, `[N]` each; `least` where there are none."""
    drawn = random_fn(
        shape=tf.shape(end), minval=tf.cast(least, tf.float32), maxval=tf.cast(end, tf.float32)
    )
    return tf.cast(drawn, end.dtype)


def _draw_elsewhere(places: _Places, random_fn: RandomFn) -> Any:
    """Returns a place `[N, 2]` in another document for each sentence."""
    num_documents = tf.size(places.all_lengths, out_type=tf.int64)
    documents = random_fn(
        shape=[tf.size(places.documents)], minval=0, maxval=num_documents - 1, dtype=tf.int64
    )
    documents += tf.cast(documents >= places.documents, tf.int64)
    lengths = tf.gather(places.all_lengths, documents)
    return tf.stack([documents, _draw_integers(tf.zeros_like(lengths), lengths, random_fn)], axis=1)
