"""TFRecords of masked words, packed from text files, for the pretraining of BERT.

`quintain data mlm` is its command line.

Shapes:
    N  sequences in a chunk
    S  positions
    M  masked positions
"""

import contextlib
import dataclasses
import itertools
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths, whole_files
from quintain.input import input_files, line_files
from quintain.nlp.data.masked import (
    bert_vocabulary,
    disk_shuffle,
    masking,
    mlm_examples,
    text_packing,
)

Ids = npt.NDArray[np.int32]

_CHUNK: Final = 1_024
_BUCKET_BYTES: Final = 2**26
_MAX_REPORTED: Final = 20

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RecordSettings:
    """Settings of masked-text records."""

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
    """Counts of what was read and written."""

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

    Inputs are paths and patterns, each of which may have a language before it: `de=de/*.txt`.

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

    Memory does not grow with the text: what must wait for its turn does so in files in a directory
    beside the output, which take about twice the size of the tokens, 4 bytes each.

    The same files and settings give the same records. A sequence holds text of one language and of
    one document: a blank line, and the end of a file, end it.

    Args:
        files: Text files by language, one text a line; those ending in `.gz` are compressed.
        output: Start of the names of the files to write: `output-00000-of-00001.tfrecord`.
        vocabulary: Cuts text into tokens.
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
    with _scratch_directory(output) as scratch:
        spools = [
            disk_shuffle.Spool(file_paths.join(scratch, f"language-{number:05d}"))
            for number in range(len(files))
        ]
        for spool, (language, paths) in zip(spools, files.items(), strict=True):
            spool.write(_build_sequences(paths, language, vocabulary, settings, report))
        if not any(map(len, spools)):
            raise errors.DataError(
                "--input: there is no text with tokens in these files. Check the paths, and the "
                "vocabulary."
            )
        generator = np.random.default_rng(settings.seed)
        buckets = _shuffle(spools, scratch, settings, generator)
        with all_or_none(report.paths) as temporary:
            _write_examples(buckets, temporary, vocabulary, rules, settings, report, generator)
    return report


@contextlib.contextmanager
def _scratch_directory(output: str) -> Iterator[str]:
    """Makes a directory for passing files, beside the output where that is a local file."""
    file_io.check_writable(output, "--output")
    directory = file_paths.dirname(output)
    if directory:
        file_io.makedirs(directory)
    parent = directory or "." if file_paths.is_local(directory) else None
    with tempfile.TemporaryDirectory(prefix=".mlm-", dir=parent) as scratch:
        yield scratch


@contextlib.contextmanager
def all_or_none(paths: Sequence[str]) -> Iterator[list[str]]:
    """Gives names to write to, and renames the files if all went well."""
    temporary = [f"{path}.{os.getpid()}.tmp" for path in paths]
    try:
        yield temporary
        for unfinished, path in zip(temporary, paths, strict=True):
            whole_files.publish(unfinished, path)
    finally:
        for unfinished in temporary:
            if file_io.exists(unfinished):
                file_io.remove(unfinished)


def _read_texts(paths: Sequence[str], settings: RecordSettings, report: Report) -> Iterator[str]:
    """Yields lines, and an empty one after each file."""

    def skip(error: errors.DataError) -> None:
        if not settings.skip_bad:
            raise errors.DataError(f"{error} --skip-bad leaves such lines out.") from error
        report.num_skipped += 1
        if report.num_skipped <= _MAX_REPORTED:
            _logger.warning("Left out: %s", error)

    for path in paths:
        for _, line in line_files.read(path, skip=skip):
            yield line.strip()
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


def _count_passes(spools: Sequence[disk_shuffle.Spool], settings: RecordSettings) -> list[float]:
    """Returns how often the sequences of each language are written.

    Source:
        Conneau and Lample, 2019, section 3.1 (https://arxiv.org/abs/1901.07291).
    """
    largest = max(map(len, spools))
    return [
        settings.dupe_factor * (largest / max(len(spool), 1)) ** (1.0 - settings.smoothing)
        for spool in spools
    ]


def _shuffle(
    spools: Sequence[disk_shuffle.Spool],
    scratch: str,
    settings: RecordSettings,
    generator: np.random.Generator,
) -> Iterator[list[disk_shuffle.Entry]]:
    """Yields all sequences in random order, as often as they are written, many at a time."""
    passes = _count_passes(spools, settings)
    num_bytes = sum(count * spool.num_bytes for count, spool in zip(passes, spools, strict=True))
    buckets = disk_shuffle.Buckets(
        scratch, int(num_bytes), bucket_bytes=_BUCKET_BYTES, held_bytes=_BUCKET_BYTES
    )
    for group, spool in enumerate(spools):
        whole, rest = divmod(passes[group], 1.0)
        for place, ids in enumerate(spool.read()):
            for _ in range(int(whole) + int(generator.random() < rest)):
                bucket = int(generator.integers(len(buckets)))
                buckets.add(bucket, disk_shuffle.Entry(group, place, ids))
        spool.remove()
    for entries in buckets.read():
        yield [entries[place] for place in generator.permutation(len(entries))]


def _write_examples(
    buckets: Iterator[list[disk_shuffle.Entry]],
    paths: Sequence[str],
    vocabulary: bert_vocabulary.BertVocabulary,
    rules: masking.MaskingRules,
    settings: RecordSettings,
    report: Report,
    generator: np.random.Generator,
) -> None:
    languages = list(report.num_examples)
    writers = [tf.io.TFRecordWriter(path) for path in paths]
    number = 0
    try:
        for chunk, examples in _build_examples(buckets, vocabulary, settings, generator):
            seed = tf.constant([settings.seed, number], tf.int64)
            ids = tf.constant(
                np.stack([example["input_word_ids"] for example in examples]), tf.int32
            )
            masked = {
                name: value.numpy() for name, value in masking.mask_words(ids, rules, seed).items()
            }
            for row, (entry, example) in enumerate(zip(chunk, examples, strict=True)):
                language = languages[entry.group]
                report.num_examples[language] += 1
                report.num_tokens += int(example["input_mask"].sum())
                report.num_positions += settings.seq_length
                fields = {**example, **{name: value[row] for name, value in masked.items()}}
                record = mlm_examples.to_record(
                    fields, language, use_v2_feature_names=settings.use_v2_feature_names
                )
                writers[number % len(writers)].write(record)
                number += 1
    finally:
        for writer in writers:
            writer.close()


def _build_examples(
    buckets: Iterator[list[disk_shuffle.Entry]],
    vocabulary: bert_vocabulary.BertVocabulary,
    settings: RecordSettings,
    generator: np.random.Generator,
) -> Iterator[tuple[list[disk_shuffle.Entry], list[mlm_examples.Example]]]:
    """Yields sequences and their examples, before masking, a chunk at a time."""
    neighbours = mlm_examples.Neighbours()
    for entries in buckets:
        if settings.has_next_sentence:
            neighbours.enter(entries)
        for start in range(0, len(entries), _CHUNK):
            chunk = entries[start : start + _CHUNK]
            if settings.has_next_sentence:
                pair = neighbours, settings.seq_length, vocabulary, generator
                yield chunk, [mlm_examples.build_pair(entry, *pair) for entry in chunk]
            else:
                length = settings.seq_length
                yield chunk, [mlm_examples.build(entry, length, vocabulary) for entry in chunk]
