"""Pairs of texts that belong together, from TSV files, JSON Lines, TFRecords or TFDS.

TSV files and JSON Lines are read and checked as a whole, and held in memory; records and TensorFlow
Datasets are streamed.

Shapes:
    B  pairs in the batch
    S  positions
    N  pairs of all files
    F  text fields of both sides
"""

import dataclasses
import functools
import itertools
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import base_config
from quintain.core.steps import autograph
from quintain.input import input_reader, line_files
from quintain.nlp.data import (
    bert_inputs,
    data_loader,
    data_loader_factory,
    labelled_files,
)
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.masked import bert_vocabulary
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg

FileType = Literal["auto", "tfrecord", "tsv", "jsonl"]

_ENDINGS = {"tsv": (".tsv", ".tsv.gz"), "jsonl": (".jsonl", ".jsonl.gz")}

_logger = logging.getLogger(__name__)


@dataclasses.dataclass
class DualEncoderDataConfig(cfg.DataConfig):
    """Pairs of texts that belong together, such as questions and answers."""

    global_batch_size: cfg.NonNegativeInt = 32
    """Pairs in a batch over all replicas. The right text of a pair is told from those of the
    others on its replica: large batches learn more."""

    vocab_file: str = ""
    """WordPiece vocabulary (a token a line) or SentencePiece model."""

    tokenization: bert_vocabulary.Tokenization = "WordPiece"
    """What kind of vocabulary `vocab_file` is."""

    lower_case: bool = True
    """Whether case does not count; WordPiece then drops accents as well. Must be as in
    pretraining."""

    preprocessing_hub_module_url: str = base_config.unused(
        "", "Give the vocabulary as vocab_file: a file of words or a SentencePiece model."
    )
    """Kept for configs of the reference."""

    left_text_fields: tuple[str, ...] = ("left_input",)
    """Columns, keys or features of the left text; several are joined in this order."""

    right_text_fields: tuple[str, ...] = ("right_input",)
    """Likewise of the right text."""

    column_names: list[str] | None = None
    """Columns of TSV files without a header line. None takes the names from the first line."""

    is_training: bool | None = True
    """Whether the data is shuffled and repeated for training."""

    seq_length: ranges.Size = 128
    """Positions of a text. Longer ones are cut."""

    file_type: FileType = "auto"
    """What `input_path` holds. `auto` takes files whose names end in `.tsv` or `.jsonl`, or in
    these and `.gz`, as such, and others as TFRecord."""


@data_loader_factory.register_data_loader_cls(DualEncoderDataConfig)
class DualEncoderDataLoader(data_loader.DataLoader):
    """Reads pairs of texts, and cuts them into tokens."""

    def __init__(self, params: DualEncoderDataConfig) -> None:
        """Checks the config.

        Raises:
            ConfigError: If a side has no text fields, or there is no such bundled corpus.
        """
        for name in ("left_text_fields", "right_text_fields"):
            if not getattr(params, name):
                raise errors.ConfigError(
                    f"{name}: got none, expected the columns, keys or features of the text."
                )
        corpus = bundled_corpora.find_name(params.input_path)
        if corpus:
            sides = [*params.left_text_fields, *params.right_text_fields]
            params = params.replace(
                input_path=bundled_corpora.find_file(params.input_path),
                column_names=sides[::-1] if "_reversed/" in corpus else sides,
                file_type="tsv",
            )
        self._params = params
        self._fields = [*params.left_text_fields, *params.right_text_fields]
        self._skips = params.corrupt_records == "skip"

    @functools.cached_property
    def text_processor(self) -> bert_inputs.TextProcessor:
        """Preprocessing of texts to the model's inputs."""
        params = self._params
        return bert_inputs.TextProcessor(
            params.seq_length, params.vocab_file, params.tokenization, params.lower_case
        )

    @override
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns batches.

        Returns:
            `left_word_ids`, `left_mask`, `left_type_ids`, and the same of `right`, `[B, S]` int32.

        Raises:
            ConfigError: If a replica gets single pairs to train on, or the vocabulary can't be
                used.
            DataError: If data or vocabulary is missing or wrong, with file and line or record.
        """
        params = self._params
        if params.is_training and input_reader.per_replica_batch_size(params, input_context) < 2:
            raise errors.ConfigError(
                f"global_batch_size: got {params.global_batch_size}, expected at least 2 for each "
                "replica: the other pairs of the batch are what a right text is told from."
            )
        self.text_processor  # noqa: B018 - Fails before any data is read.
        stages: dict[str, Any] = {"decoder_fn": self._decode}
        file_type = self._find_file_type()
        paths = data_loader.find_files(params)
        if file_type == "tfrecord":
            labelled_files.check_texts(paths, self._fields, skips_damaged=self._skips)
        elif file_type:
            stages = {"dataset_fn": self._hold(paths, file_type), "decoder_fn": self._name_fields}
        # A batch is cut into tokens at once: much faster than one text after the other.
        reader = input_reader.InputReader(params, postprocess_fn=self._bert_preprocess, **stages)
        with autograph.errors_unwrapped():
            return reader.read(input_context)

    def _find_file_type(self) -> str:
        """Returns the type of the files; an empty string of TensorFlow Datasets."""
        paths = data_loader.list_paths(self._params)
        if self._params.tfds_name:
            return ""
        if self._params.file_type != "auto":
            return self._params.file_type
        for name, endings in _ENDINGS.items():
            if paths and all(path.endswith(endings) for path in paths):
                return name
        return "tfrecord"

    def _hold(self, paths: list[str], file_type: str) -> Any:
        """Returns what gives the pairs `[F]` of a file, all of which are checked and in memory."""
        columns = None
        if file_type == "tsv":
            columns = labelled_files.find_columns(paths, self._fields, self._params.column_names)
        rows, ends = [], [0]
        for path in paths:
            rows += self._read_file(path, columns)
            ends.append(len(rows))
        texts, files = tf.constant(rows, tf.string), tf.constant(paths)  # [N, F], [files]
        places = tf.constant(ends, tf.int64)

        def read(path: str | tf.Tensor) -> tf.data.Dataset:
            place = tf.argmax(tf.cast(tf.equal(files, path), tf.int32))
            return tf.data.Dataset.from_tensor_slices(texts[places[place] : places[place + 1]])

        return read

    def _read_file(self, path: str, columns: labelled_files.Columns | None) -> list[list[str]]:
        rows, num_bad = [], 0
        for number, record in self._read_lines(path, columns):
            problem = record if isinstance(record, str) else self._find_problem(record)
            if not problem:
                rows.append([record[field] for field in self._fields])
            elif self._skips:
                num_bad += 1
            else:
                raise errors.DataError(f"{path}:{number}: {problem} Fix or remove the line.")
        if not rows:
            raise errors.DataError(f"{path}: no pairs of texts, the file is empty. Check the path.")
        if num_bad:
            _logger.warning("%s: left out %d of %d lines.", path, num_bad, len(rows) + num_bad)
        return rows

    def _read_lines(
        self, path: str, columns: labelled_files.Columns | None
    ) -> Iterator[tuple[int, Any]]:
        """Yields the number of every line that is not blank, and its record or what is wrong."""
        if columns is None:
            skip = (lambda _: None) if self._skips else None
            for number, line in line_files.read(path, skip=skip):
                if line and not line.isspace():
                    yield number, _parse_json(line)
            return
        names = columns.names
        rows = labelled_files.read_rows(path, skips_damaged=self._skips)
        for number, row in itertools.islice(rows, int(columns.has_header), None):
            problem = f"got {len(row)} columns, expected the {len(names)} of {', '.join(names)}."
            is_whole = len(row) == len(names)
            yield number, dict(zip(names, row, strict=True)) if is_whole else problem

    def _find_problem(self, record: Mapping[str, Any]) -> str:
        for field in self._fields:
            if field not in record:
                return f"has no {field!r}, only {', '.join(map(repr, record))}."
            text = record[field]
            if not isinstance(text, str) or not text.strip():
                return f"{field}: got {errors.show(text)}, expected a text."
        return ""

    def _name_fields(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return dict(zip(self._fields, tf.unstack(texts, len(self._fields)), strict=True))

    def _decode(self, record: Any) -> dict[str, tf.Tensor]:
        if not isinstance(record, Mapping):
            features = dict.fromkeys(self._fields, tf.io.FixedLenFeature([], tf.string))
            return tf.io.parse_single_example(record, features)
        for field in self._fields:
            if field not in record:
                raise errors.ConfigError(
                    f"left_text_fields, right_text_fields: got {field!r}, but the entry has the "
                    f"features {', '.join(record)}.{errors.suggest(field, record)}"
                )
        return {field: record[field] for field in self._fields}

    def _bert_preprocess(self, record: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Turns the texts of a batch into the inputs of the model."""
        params, inputs = self._params, {}
        for side, fields in (
            ("left", params.left_text_fields),
            ("right", params.right_text_fields),
        ):
            for name, value in self.text_processor([record[field] for field in fields]).items():
                inputs[name.replace("input", side, 1)] = value
        return inputs


def _parse_json(line: str) -> Any:
    """Returns the object that a line is, or what is wrong with it."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"is no JSON ({str(error).partition(':')[0]})."
    return record if isinstance(record, dict) else f"got {errors.show(record)}, expected an object."
