"""Sentence pairs in TFRecord files, as `tf.train.Example`s with one text feature for each side.

Shapes:
    S  source tokens, EOS included
    T  target tokens, EOS included
"""

import dataclasses
import logging
from collections.abc import Callable, Sequence

import tensorflow as tf

from quintain import errors
from quintain.input import input_reader
from quintain.nlp.data import tokenizers
from quintain.orbit import iterators

Example = dict[str, tf.Tensor]
Pair = tuple[str, str]

_CHUNK = 1_024
_DROPPED_WARNING_RATIO = 0.01

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RecordFormat:
    """Names of the features that an example has."""

    source: str
    """Feature with the source text, UTF-8."""

    target: str
    """Feature with the target text, UTF-8."""

    has_unique_id: bool = False
    """Whether there is an int64 feature `unique_id` that numbers the pairs from 0."""

    @property
    def features(self) -> dict[str, tf.io.FixedLenFeature]:
        """The features, as `tf.io.parse_example` takes them."""
        features = {
            self.source: tf.io.FixedLenFeature([], tf.string),
            self.target: tf.io.FixedLenFeature([], tf.string),
        }
        if self.has_unique_id:
            features["unique_id"] = tf.io.FixedLenFeature([], tf.int64)
        return features


def read_pairs(
    paths: Sequence[str],
    record_format: RecordFormat,
    *,
    skips_damaged: bool = False,
) -> list[Pair]:
    """Reads all pairs of TFRecord files; those ending in `.gz` are compressed.

    With `skips_damaged`, records that can't be read or parsed are left out with a warning.

    Returns:
        The pairs in file order, or in the order of their `unique_id`.

    Raises:
        DataError: If a file is damaged or empty, if a record lacks a feature or is not UTF-8, or
            if the `unique_id`s are not 0, 1, 2 and so on.
    """
    pairs: list[Pair] = []
    unique_ids: list[int] = []
    for path in paths:
        num_before = len(pairs)
        try:
            for examples in _read_examples(path, record_format, skips_damaged):
                sources, targets = (
                    [text.decode("utf-8") for text in examples[name].numpy()]
                    for name in (record_format.source, record_format.target)
                )
                pairs += zip(sources, targets, strict=True)
                if record_format.has_unique_id:
                    unique_ids += examples["unique_id"].numpy().tolist()
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            start = len(pairs) - num_before
            where = f"{path}: a record from {start + 1} to {start + _CHUNK}"
            raise _unreadable(where, error, record_format) from error
        if len(pairs) == num_before:
            raise errors.DataError(f"{path}: no records, the file is empty. Check the path.")
    if record_format.has_unique_id:
        pairs = _in_order(pairs, unique_ids)
    return pairs


def _read_examples(path: str, record_format: RecordFormat, skips_damaged: bool) -> tf.data.Dataset:
    records = input_reader.read_records(path)
    if not skips_damaged:
        return records.batch(_CHUNK).map(
            lambda batch: tf.io.parse_example(batch, record_format.features)
        )

    def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
        example = dict(tf.io.parse_single_example(record, record_format.features))
        for name in (record_format.source, record_format.target):
            example[name] = tf.strings.unicode_transcode(
                example[name], "UTF-8", "UTF-8", errors="strict"
            )
        return example

    whole = records.ignore_errors(log_warning=True).map(parse)
    return whole.ignore_errors(log_warning=True).batch(_CHUNK)


def _unreadable(where: str, error: Exception, record_format: RecordFormat) -> errors.DataError:
    detail = getattr(error, "message", None) or str(error)
    return errors.DataError(
        f"{where} cannot be read ({detail}). Expected examples with UTF-8 text in the features "
        f"{record_format.source!r} and {record_format.target!r}; see `src_lang` and `tgt_lang`."
    )


def _in_order(pairs: list[Pair], unique_ids: list[int]) -> list[Pair]:
    order = sorted(range(len(pairs)), key=unique_ids.__getitem__)
    if [unique_ids[i] for i in order] != list(range(len(pairs))):
        raise errors.DataError(
            f"unique_id: the {len(pairs)} records are not numbered from 0 to {len(pairs) - 1}, "
            "each once. Number them so, or set has_unique_id to false."
        )
    return [pairs[i] for i in order]


def build_text_decoder(record_format: RecordFormat) -> Callable[[tf.Tensor], Example]:
    """Returns the function that maps a record to the strings `inputs` and `targets`, scalars."""

    def decode(record: tf.Tensor) -> Example:
        example = tf.io.parse_single_example(record, record_format.features)
        return {
            "inputs": example[record_format.source],
            "targets": example[record_format.target],
        }

    return decode


@dataclasses.dataclass(frozen=True)
class PairTokenization:
    """Tokenises pairs of strings, `inputs` and `targets`, for training."""

    tokenizer: tokenizers.SentencePieceTokenizer | tokenizers.Sides
    """For both sides; or two, one for each."""

    max_length: int
    """Most tokens of a side, EOS included."""

    def tokenize(self, example: Example) -> Example:
        """Cuts the scalars `inputs` and `targets` into `[S]` and `[T]`.

        A text too long for so few tokens becomes an empty one, see
        `tokenizers.MAX_CHARACTERS_PER_TOKEN`.
        """
        limit = self.max_length * tokenizers.MAX_CHARACTERS_PER_TOKEN
        sides = zip(("inputs", "targets"), tokenizers.both_sides(self.tokenizer), strict=True)
        tokens = {}
        for name, side in sides:
            is_long = tf.strings.length(example[name], unit="UTF8_CHAR") > limit
            tokens[name] = side.tokenize(tf.where(is_long, "", example[name]))
        return tokens

    def is_usable(self, example: Example) -> tf.Tensor:
        """Returns whether an example has text, but no side that is too long."""
        lengths = tf.stack([tf.size(example["inputs"]), tf.size(example["targets"])])
        # The EOS of an empty sentence makes its length 1.
        return tf.reduce_all((lengths > 1) & (lengths <= self.max_length))

    def check(self, where: str, texts: tf.data.Dataset) -> None:
        """Checks the start of a source, so that an endless stream of nothing can't come of it.

        Where more than one pair in a hundred can't be used, a warning says how many.

        Args:
            where: File or entry, for messages.
            texts: Its pairs of strings.

        Raises:
            DataError: If there is no pair, or none of the first may be used for training.
        """
        flags = texts.take(_CHUNK).map(self.tokenize).map(self.is_usable)
        usable = [bool(flag) for flag in iterators.create_numpy(flags)]
        if not usable:
            raise errors.DataError(f"{where}: no records, the file is empty. Check the path.")
        if not any(usable):
            raise errors.DataError(
                f"{where}: none of the first {len(usable)} pairs can be used, all are empty on one "
                "side or longer than max_seq_length. Check the file, or give a larger one."
            )
        num_dropped = len(usable) - sum(usable)
        if num_dropped > _DROPPED_WARNING_RATIO * len(usable):
            _logger.warning(
                "%s: training leaves out pairs that are empty on one side or longer than "
                "max_seq_length, %d of the first %d (%.1f %%).",
                where, num_dropped, len(usable), 100 * num_dropped / len(usable),
            )  # fmt: skip


def check_files(
    paths: Sequence[str], record_format: RecordFormat, tokenization: PairTokenization
) -> None:
    """Checks the start of every TFRecord file.

    Raises:
        DataError: If a file has no record, one of its first records can't be decoded, or none of
            them may be used for training.
    """
    for path in paths:
        try:
            records = input_reader.read_records(path)
            tokenization.check(path, records.map(build_text_decoder(record_format)))
        except tf.errors.OpError as error:
            raise _unreadable(f"{path}: one of the first records", error, record_format) from error
