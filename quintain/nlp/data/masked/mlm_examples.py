"""Examples before masking: sequences, or pairs of segments, as records hold them.

Shapes:
    L  tokens of a sequence, without special ones at the start
    S  positions
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from quintain.nlp.data.masked import bert_vocabulary, disk_shuffle

Ids = npt.NDArray[np.int32]
Example = dict[str, npt.NDArray[np.int64]]

_OTHER_RATE: Final = 0.5
_FORMER_NAMES: Final = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}


class Neighbours:
    """Finds other sequences of the same language, among those of a bucket."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, Ids]] = {}
        self._places: dict[int, list[int]] = {}

    def enter(self, entries: Iterable[disk_shuffle.Entry]) -> None:
        """Forgets the last bucket for another.

        Of a language that has a single sequence in it, one of those before is kept.
        """
        former, self._known = self._known, {}
        for entry in entries:
            self._known.setdefault(entry.group, {})[entry.place] = entry.ids
        for group, parts in former.items():
            mine = self._known.setdefault(group, {})
            spare = next((place for place in parts if place not in mine), None)
            if len(mine) < 2 and spare is not None:
                mine[spare] = parts[spare].copy()
        self._places = {group: list(parts) for group, parts in self._known.items()}

    def draw(self, entry: disk_shuffle.Entry, generator: np.random.Generator) -> Ids | None:
        """Returns another sequence of an entry's language; None if there is none."""
        places = self._places[entry.group]
        if len(places) < 2:
            return None
        place = places[int(generator.integers(len(places) - 1))]
        # The last one stands in for the entry itself.
        return self._known[entry.group][places[-1] if place == entry.place else place]


def build(
    entry: disk_shuffle.Entry, seq_length: int, vocabulary: bert_vocabulary.BertVocabulary
) -> Example:
    """Returns `[CLS]` and a sequence: word ids, mask and type ids, each `[S]`."""
    return pad([vocabulary.cls_id, *entry.ids], len(entry.ids) + 1, seq_length)


def build_pair(
    entry: disk_shuffle.Entry,
    neighbours: Neighbours,
    seq_length: int,
    vocabulary: bert_vocabulary.BertVocabulary,
    generator: np.random.Generator,
) -> Example:
    """Returns a sequence in two segments; in half of the examples the second is of another one.

    Returns:
        As `build`, and `next_sentence_labels` `[1]`, 1 where the second does not follow the first.

    Source:
        Devlin et al., 2019, section 3.1 (https://arxiv.org/abs/1810.04805).
    """
    tokens = entry.ids
    end = int(generator.integers(1, max(len(tokens), 2)))
    first, second, is_other = tokens[:end], tokens[end:], False
    if generator.random() < _OTHER_RATE or not len(second):
        other = neighbours.draw(entry, generator)
        if other is not None:
            begin = int(generator.integers(0, max(len(other) // 2, 1)))
            second, is_other = other[begin : begin + seq_length - 3 - len(first)], True
    sep = vocabulary.sep_id
    ids = [vocabulary.cls_id, *first, sep, *second, sep]
    padded = pad(ids, len(first) + 2, seq_length)
    return {**padded, "next_sentence_labels": np.array([int(is_other)])}


def pad(ids: Sequence[int], num_first: int, seq_length: int) -> Example:
    """Returns ids as a padded example, whose second segment starts after `num_first` of them."""
    places = np.arange(seq_length)
    padded = np.zeros(seq_length, np.int64)
    padded[: len(ids)] = ids
    return {
        "input_word_ids": padded,
        "input_mask": (places < len(ids)).astype(np.int64),
        "input_type_ids": ((places >= num_first) & (places < len(ids))).astype(np.int64),
    }


def to_record(
    fields: Mapping[str, npt.NDArray[np.generic]], language: str, *, use_v2_feature_names: bool
) -> bytes:
    """Returns an example as a serialised `tf.train.Example`; a language is a feature as well.

    `use_v2_feature_names` calls features `input_word_ids` and `input_type_ids`.
    """
    features = {}
    for name, value in fields.items():
        key = name if use_v2_feature_names else _FORMER_NAMES.get(name, name)
        features[key] = _to_feature(value)
    if language:
        names = tf.train.BytesList(value=[language.encode()])
        features["language"] = tf.train.Feature(bytes_list=names)
    example = tf.train.Example(features=tf.train.Features(feature=features))
    record: bytes = example.SerializeToString()
    return record


def _to_feature(values: npt.NDArray[np.generic]) -> tf.train.Feature:
    if np.issubdtype(values.dtype, np.floating):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
