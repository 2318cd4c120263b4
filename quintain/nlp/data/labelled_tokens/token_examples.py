"""Token ids of words, and examples of them as records: in memory, or written to a file.

Shapes:
    T  tokens of a word
    W  words
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.nlp.data.masked import bert_vocabulary, mlm_examples, mlm_records
from quintain.settings import config_definitions as cfg

Example = dict[str, np.ndarray]

_CHUNK: Final = 20_000
"""Words cut into tokens at the same time."""

_SPACES: Final = re.compile(r"\S+")


class Tokens(NamedTuple):
    """Tokens of a word."""

    ids: list[int]
    """`[T]` ids."""

    starts: list[int]
    """`[T]` characters of the word where they begin."""

    ends: list[int]
    """`[T]` characters where they end."""


Tokenizer = Callable[[Sequence[str]], list[Tokens]]
"""Cuts words into tokens."""


class SpecialIds(NamedTuple):
    """Ids of the tokens that stand for no text."""

    cls: int
    sep: int
    unknown: int

    @classmethod
    def of(cls, vocabulary: bert_vocabulary.BertVocabulary) -> "SpecialIds":
        """Returns those of a vocabulary."""
        unknown = vocabulary.unknown_id
        return cls(vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id
                   if unknown is None else unknown)  # fmt: skip


def split_words(text: str) -> list[tuple[int, str]]:
    """Returns the words of a text, which spaces part, and the characters where they begin."""
    return [(found.start(), found.group()) for found in _SPACES.finditer(text)]


def build_tokenizer(run: Callable[[tf.Tensor], Mapping[str, tf.Tensor]]) -> Tokenizer:
    """Returns what cuts words by a function of the graph, such as `tokenize` of this module.

    A word is cut once, however often it stands in a text.
    """
    known: dict[str, Tokens] = {}

    def tokenize(words: Sequence[str]) -> list[Tokens]:
        new = list(dict.fromkeys(word for word in words if word not in known))
        for start in range(0, len(new), _CHUNK):
            chunk = new[start : start + _CHUNK]
            found = {name: value.numpy() for name, value in run(tf.constant(chunk)).items()}
            splits = found["row_splits"]
            for word, begin, end in zip(chunk, splits[:-1], splits[1:], strict=True):
                ids, starts, ends = (
                    found[name][begin:end].tolist() for name in ("ids", "starts", "ends")
                )
                if not word.isascii():
                    starts, ends = _count_characters(word, starts), _count_characters(word, ends)
                known[word] = Tokens(ids, starts, ends)
        tokens = [known[word] for word in words]
        if len(known) > _CHUNK:
            known.clear()
        return tokens

    return tokenize


def tokenizer_of(vocabulary: bert_vocabulary.BertVocabulary) -> Tokenizer:
    """Returns what cuts words by a vocabulary."""
    return build_tokenizer(lambda words: tokenize(vocabulary, words))


def _count_characters(word: str, places: Sequence[int]) -> list[int]:
    encoded = word.encode()
    return [len(encoded[:place].decode(errors="ignore")) for place in places]


def tokenize(vocabulary: bert_vocabulary.BertVocabulary, words: tf.Tensor) -> dict[str, tf.Tensor]:
    """Cuts words `[W]` into tokens, in the graph.

    Returns:
        `ids`, `starts` and `ends`, bytes of the word, of all tokens one word after the other, and
        `row_splits` `[W + 1]`; all int32.
    """
    ids, starts, ends = vocabulary.tokenize_with_offsets(words)
    return {
        "ids": ids.values,
        "starts": starts.values,
        "ends": ends.values,
        "row_splits": tf.cast(ids.row_splits, tf.int32),
    }


def pad(ids: Sequence[int], num_first: int, seq_length: int) -> Example:
    """Returns `input_word_ids`, `input_mask` and `input_type_ids` of the ids of two segments."""
    return mlm_examples.pad(ids, num_first, seq_length)


def to_record(example: Example) -> bytes:
    """Returns an example as a serialised `tf.train.Example` with the reference's names."""
    return mlm_examples.to_record(example, "", use_v2_feature_names=False)


def to_dataset(
    examples: Iterable[Example],
    params: cfg.DataConfig,
    input_context: tf.distribute.InputContext | None,
) -> tf.data.Dataset:
    """Returns the records of one worker, without an end in training."""
    records = tf.data.Dataset.from_tensor_slices([to_record(one) for one in examples])
    if input_context is not None and params.sharding:
        records = records.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return records.repeat() if params.is_training and not params.cache else records


def write(path: str, examples: Iterable[Example]) -> int:
    """Writes examples to a TFRecord file, which appears when it is whole; returns how many.

    Raises:
        DataError: If there are none.
    """
    file_io.check_writable(path, "--output")
    if directory := file_paths.dirname(path):
        file_io.makedirs(directory)
    count = 0
    with mlm_records.all_or_none([path]) as (unfinished,):
        with tf.io.TFRecordWriter(unfinished) as writer:
            for example in examples:
                writer.write(to_record(example))
                count += 1
        if not count:
            raise errors.DataError(f"{path}: would have no examples. Check the input.")
    return count


def chunked(values: Iterable[Any], size: int = 1_000) -> Iterator[list[Any]]:
    """Yields lists of at most `size` values, so that their words are cut at once."""
    chunk: list[Any] = []
    for value in values:
        chunk.append(value)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
