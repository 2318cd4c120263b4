"""Packs text files into TFRecords of masked words, as BERT is pretrained on them.

`quintain data mlm` is its command line.

Shapes:
    N  sequences in a chunk
    S  positions
    M  masked positions
"""

import dataclasses
import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from quintain import errors
from quintain.core import input_files
from quintain.nlp.data import bert_vocabulary, labelled_files, masking, text_packing

Ids = npt.NDArray[np.int32]

_CHUNK: Final = 1_024
_OTHER_RATE: Final = 0.5
_MAX_REPORTED: Final = 20

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RecordSettings:
    """What the records are like."""

    seq_length: int = 512
    """Positions of an example."""

    dupe_factor: int = 1
    """Times that each sequence is written, with other masks."""

    smoothing: float = 1.0
    """Exponent of a language's share of the text, in `(0, 1]`. Less than 1 writes sequences of
    small languages more often than those of the largest."""

    num_shards: int = 1
    """Files to write."""

    has_next_sentence: bool = False
    """Whether examples are pairs of segments."""

    use_v2_feature_names: bool = False
    """Whether features are called `input_word_ids` and `input_type_ids`."""

    seed: int = 0
    """Seed of masks and of the order."""

    skip_bad: bool = False
    """Whether lines that are not UTF-8 are left out, instead of being an error."""


@dataclasses.dataclass
class Report:
    """What was read and written."""

    paths: list[str]
    """Files that were written."""

    num_texts: dict[str, int]
    """Texts by language."""

    num_examples: dict[str, int]
    """Examples by language."""

    num_tokens: int = 0
    """Tokens of all examples, without padding."""

    num_positions: int = 0
    """Positions of all examples."""

    num_skipped: int = 0
    """Lines left out."""


def parse_inputs(inputs: Sequence[str]) -> dict[str, list[str]]:
    """Returns the files of each language.

    Args:
        inputs: Paths and patterns, each of which may have a language before it: `de=de/*.txt`.

    Raises:
        ConfigError: If nothing is given.
        DataError: If a file does not exist.
    """
    files: dict[str, list[str]] = {}
    for text in inputs:
        language, separator, path = text.partition("=")
        if not separator or "/" in language:
            language, path = "", text
        files.setdefault(language, []).extend(input_files.match_files(path, name="--input"))
    if not files:
        raise errors.ConfigError("--input: missing, expected text files or patterns.")
    return files


def write(
    files: Mapping[str, Sequence[str]],
    output: str,
    *,
    vocabulary: bert_vocabulary.BertVocabulary,
    rules: masking.MaskingRules,
    settings: RecordSettings,
) -> Report:
    """Writes records; the files appear only when all are complete.

    The same files and settings give the same records. A sequence holds text of one language and of
    one document: a blank line, and the end of a file, end it.

    Args:
        files: Text files by language, one text a line; those ending in `.gz` are compressed.
        output: Start of the names of the files to write: `output-00000-of-00001.tfrecord`.
        vocabulary: The vocabulary.
        rules: Which tokens are masked.
        settings: What the records are like.

    Raises:
        DataError: If a file is missing or not UTF-8, or there is no text.
    """
    report = Report(
        [
            f"{output}-{index:05d}-of-{settings.num_shards:05d}.tfrecord"
            for index in range(settings.num_shards)
        ],
        dict.fromkeys(files, 0),
        dict.fromkeys(files, 0),
    )
    sequences = {
        language: list(_build_sequences(paths, language, vocabulary, settings, report))
        for language, paths in files.items()
    }
    if not any(sequences.values()):
        raise errors.DataError("--input: there is no text in these files. Check the paths.")
    directory = os.path.dirname(output)
    if directory:
        tf.io.gfile.makedirs(directory)
    generator = np.random.default_rng(settings.seed)
    temporary = [f"{path}.{os.getpid()}.tmp" for path in report.paths]
    try:
        _write_examples(sequences, temporary, vocabulary, rules, settings, report, generator)
        for unfinished, path in zip(temporary, report.paths, strict=True):
            tf.io.gfile.rename(unfinished, path, overwrite=True)
    finally:
        for unfinished in temporary:
            if tf.io.gfile.exists(unfinished):
                tf.io.gfile.remove(unfinished)
    return report


def _read_texts(paths: Sequence[str], settings: RecordSettings, report: Report) -> Iterator[str]:
    """Yields lines, and an empty one after each file."""
    for path in paths:
        for number, line in enumerate(labelled_files.read_raw_lines(path), start=1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                place = f"{path}:{number}: byte {line[error.start]:#04x} is not UTF-8."
                if not settings.skip_bad:
                    raise errors.DataError(
                        f"{place} Convert the file to UTF-8, or leave such lines out by --skip_bad."
                    ) from error
                report.num_skipped += 1
                if report.num_skipped <= _MAX_REPORTED:
                    _logger.warning("%s Left out.", place)
        yield ""


def _build_sequences(
    paths: Sequence[str],
    language: str,
    vocabulary: bert_vocabulary.BertVocabulary,
    settings: RecordSettings,
    report: Report,
) -> Iterator[Ids]:
    """Yields packed tokens, without special ones at the start."""
    num_special = 3 if settings.has_next_sentence else 1
    tokens = _tokenize(_read_texts(paths, settings, report), language, vocabulary, report)
    yield from text_packing.pack(
        tokens,
        seq_length=settings.seq_length - num_special,
        sep_id=None if settings.has_next_sentence else vocabulary.sep_id,
    )


def _tokenize(
    texts: Iterator[str],
    language: str,
    vocabulary: bert_vocabulary.BertVocabulary,
    report: Report,
) -> Iterator[Ids]:
    for chunk in iter(lambda: list(itertools.islice(texts, _CHUNK)), []):
        report.num_texts[language] += sum(map(bool, chunk))
        ragged = vocabulary.tokenize(tf.constant(chunk))
        yield from np.split(ragged.flat_values.numpy(), ragged.row_splits.numpy()[1:-1])


def _count_passes(
    sequences: Mapping[str, Sequence[Ids]], settings: RecordSettings
) -> dict[str, float]:
    """Returns how often the sequences of each language are written.

    Source:
        Conneau and Lample, 2019, section 3.1 (https://arxiv.org/abs/1901.07291).
    """
    largest = max(map(len, sequences.values()))
    return {
        language: settings.dupe_factor * (largest / len(parts)) ** (1.0 - settings.smoothing)
        for language, parts in sequences.items()
        if parts
    }


def _write_examples(
    sequences: Mapping[str, Sequence[Ids]],
    paths: Sequence[str],
    vocabulary: bert_vocabulary.BertVocabulary,
    rules: masking.MaskingRules,
    settings: RecordSettings,
    report: Report,
    generator: np.random.Generator,
) -> None:
    passes = _count_passes(sequences, settings)
    order = [
        (language, index)
        for language, count in passes.items()
        for number in range(int(np.ceil(count)))
        for index in range(len(sequences[language]))
        if generator.random() < count - number
    ]
    generator.shuffle(order)
    writers = [tf.io.TFRecordWriter(path) for path in paths]
    try:
        for start in range(0, len(order), _CHUNK):
            places = [(str(name), int(index)) for name, index in order[start : start + _CHUNK]]
            examples = [
                _build_inputs(sequences[name], index, vocabulary, settings, generator)
                for name, index in places
            ]
            seed = tf.constant([settings.seed, start], tf.int64)
            ids = tf.constant(
                np.stack([example["input_word_ids"] for example in examples]), tf.int32
            )
            masked = {
                name: value.numpy() for name, value in masking.mask_words(ids, rules, seed).items()
            }
            for row, ((language, _), example) in enumerate(zip(places, examples, strict=True)):
                report.num_examples[language] += 1
                report.num_tokens += int(example["input_mask"].sum())
                report.num_positions += settings.seq_length
                fields = {**example, **{name: value[row] for name, value in masked.items()}}
                record = _to_record(fields, language, settings)
                writers[(start + row) % len(writers)].write(record)
    finally:
        for writer in writers:
            writer.close()


def _build_inputs(
    sequences: Sequence[Ids],
    index: int,
    vocabulary: bert_vocabulary.BertVocabulary,
    settings: RecordSettings,
    generator: np.random.Generator,
) -> dict[str, npt.NDArray[np.int64]]:
    tokens = sequences[index]
    if not settings.has_next_sentence:
        return _pad([vocabulary.cls_id, *tokens], len(tokens) + 1, settings.seq_length)
    end = int(generator.integers(1, max(len(tokens), 2)))
    first, second, is_other = tokens[:end], tokens[end:], False
    if len(sequences) > 1 and (generator.random() < _OTHER_RATE or not len(second)):
        other = sequences[(index + int(generator.integers(1, len(sequences)))) % len(sequences)]
        begin = int(generator.integers(0, max(len(other) // 2, 1)))
        second, is_other = other[begin : begin + settings.seq_length - 3 - len(first)], True
    sep = vocabulary.sep_id
    ids = [vocabulary.cls_id, *first, sep, *second, sep]
    padded = _pad(ids, len(first) + 2, settings.seq_length)
    return {**padded, "next_sentence_labels": np.array([int(is_other)])}


def _pad(ids: Sequence[int], num_first: int, seq_length: int) -> dict[str, npt.NDArray[np.int64]]:
    places = np.arange(seq_length)
    padded = np.zeros(seq_length, np.int64)
    padded[: len(ids)] = ids
    return {
        "input_word_ids": padded,
        "input_mask": (places < len(ids)).astype(np.int64),
        "input_type_ids": ((places >= num_first) & (places < len(ids))).astype(np.int64),
    }


def _to_record(
    fields: Mapping[str, npt.NDArray[np.int64]], language: str, settings: RecordSettings
) -> bytes:
    former_names = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
    features = {}
    for name, value in fields.items():
        key = name if settings.use_v2_feature_names else former_names.get(name, name)
        features[key] = _to_feature(value)
    if language:
        value = tf.train.BytesList(value=[language.encode()])
        features["language"] = tf.train.Feature(bytes_list=value)
    example = tf.train.Example(features=tf.train.Features(feature=features))
    record: bytes = example.SerializeToString()
    return record


def _to_feature(values: Iterable[float] | npt.NDArray[np.int64]) -> tf.train.Feature:
    array = np.asarray(values)
    if np.issubdtype(array.dtype, np.floating):
        return tf.train.Feature(float_list=tf.train.FloatList(value=array))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=array))
