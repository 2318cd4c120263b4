"""Labelled texts: one or two of them an example, with a class or a number.

`SentencePredictionDataConfig` reads TFRecords of ids. `SentencePredictionTextDataConfig` reads raw
text, from TSV files, TFRecords or TensorFlow Datasets, and cuts it into tokens.

Shapes:
    B  examples in the batch
    S  positions
"""

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Final, Literal

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import base_config
from quintain.core.steps import autograph
from quintain.input import input_files, input_reader
from quintain.nlp.data import bert_inputs, data_loader, data_loader_factory, labelled_files
from quintain.nlp.data.masked import bert_vocabulary
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg

TextProcessor = bert_inputs.TextProcessor

Size = ranges.Size
FileType = Literal["auto", "tfrecord", "tsv"]

_NEW_NAMES = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}

LABEL_TYPES_MAP: Final = {"int": tf.int64, "float": tf.float32}
"""Types of labels in records, by `label_type`."""


@dataclasses.dataclass
class _LabelledDataConfig(cfg.DataConfig):
    """Examples with a label."""

    global_batch_size: cfg.NonNegativeInt = 32
    """Examples in a batch over all replicas."""

    is_training: bool | None = True
    """Whether the data is shuffled and repeated for training."""

    seq_length: Size = 128
    """Positions of an example. Longer texts are cut."""

    label_type: labelled_files.LabelType = "int"
    """Whether labels are class ids (int64) or numbers (float32)."""

    include_example_id: bool = False
    """Whether examples have a number of their own, int64, in the column or feature `example_id`."""


@dataclasses.dataclass
class SentencePredictionDataConfig(_LabelledDataConfig):
    """TFRecords with `input_ids`, `input_mask`, `segment_ids` and a label."""

    label_field: str = "label_ids"
    """Feature with the label."""

    label_name: list[str] | None = None
    """Two names: the label's feature, and another name under which it is handed on as well."""

    file_type: Literal["tfrecord"] = "tfrecord"
    """Format of the files."""


@dataclasses.dataclass
class SentencePredictionTextDataConfig(_LabelledDataConfig):
    """Raw texts and a label."""

    text_fields: list[str] | None = None
    """Columns or features with the texts; several are joined in this order."""

    label_field: str = "label"
    """Column or feature with the label."""

    label_names: list[str] | None = None
    """Names of the classes, in the order of their ids: the data names its labels instead of
    numbering them. The task fills it in."""

    column_names: list[str] | None = None
    """Columns of TSV files without a header line. None takes the names from the first line."""

    tokenization: bert_vocabulary.Tokenization = "WordPiece"
    """What kind of vocabulary `vocab_file` is."""

    vocab_file: str = ""
    """WordPiece vocabulary (a token a line) or SentencePiece model."""

    lower_case: bool = True
    """Whether case does not count; WordPiece then drops accents as well. Must be as in
    pretraining."""

    preprocessing_hub_module_url: str = base_config.unused(
        "", "Give the vocabulary as vocab_file: a file of words or a SentencePiece model."
    )
    """Kept for configs of the reference."""

    file_type: FileType = "auto"
    """What `input_path` holds. `auto` takes files whose names end in `.tsv` or `.tsv.gz` as TSV and
    others as TFRecord."""


class _LabelledDataLoader(data_loader.DataLoader):
    """Reads examples with a label, which can be checked beforehand."""

    _params: Any

    @abc.abstractmethod
    def name_to_features_spec(self) -> dict[str, Any]:
        """Returns the features of a record. Subclasses may add others."""

    def check_labels(self, num_classes: int | None) -> None:
        """Reads all files, and checks their labels; of any number of classes if that is None.

        Raises:
            DataError: If a label is outside the range or a row is malformed, naming file and line
                or record.
        """
        params = self._params
        names = tuple(getattr(params, "label_names", None) or ())
        labels = labelled_files.LabelRange(params.label_type, num_classes, names)
        if paths := data_loader.find_files(params):
            self._check_files(paths, labels, skips_damaged=params.corrupt_records == "skip")

    def _check_files(
        self, paths: list[str], labels: labelled_files.LabelRange, *, skips_damaged: bool
    ) -> None:
        if not skips_damaged:
            labelled_files.check_features(paths, self.name_to_features_spec())
        field = self._params.label_field
        labelled_files.check_records(paths, field, labels, skips_damaged=skips_damaged)


@data_loader_factory.register_data_loader_cls(SentencePredictionDataConfig)
class SentencePredictionDataLoader(_LabelledDataLoader):
    """Reads examples of ids."""

    def __init__(self, params: SentencePredictionDataConfig) -> None:
        """Checks the config.

        Raises:
            ConfigError: If `label_name` is not a pair.
        """
        if params.label_name is not None and len(params.label_name) != 2:
            raise errors.ConfigError(
                f"label_name: got {params.label_name!r}, expected two names: the feature and its "
                "other name."
            )
        self._params = params

    @override
    def name_to_features_spec(self) -> dict[str, Any]:
        params = self._params
        ids = tf.io.FixedLenFeature([params.seq_length], tf.int64)
        spec: dict[str, Any] = {"input_ids": ids, "input_mask": ids, "segment_ids": ids}
        label_dtype = labelled_files.LABEL_DTYPES[params.label_type]
        spec[params.label_field] = tf.io.FixedLenFeature([], label_dtype)
        if params.include_example_id:
            spec["example_id"] = tf.io.FixedLenFeature([], tf.int64)
        return spec

    @override
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns batches.

        Returns:
            `input_word_ids`, `input_mask`, `input_type_ids` `[B, S]` int32, the label `[B]` int32
            or float32, and what else the features have.
        """
        reader = input_reader.InputReader(
            self._params, decoder_fn=self._decode, parser_fn=self._parse
        )
        return reader.read(input_context)

    def _decode(self, record: Any) -> dict[str, tf.Tensor]:
        if isinstance(record, Mapping):
            return dict(record)
        return data_loader.to_int32(
            tf.io.parse_single_example(record, self.name_to_features_spec())
        )

    def _parse(self, record: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Renames features to what the model takes."""
        example = {_NEW_NAMES.get(name, name): value for name, value in record.items()}
        if self._params.label_name is not None:
            field, other = self._params.label_name
            example[other] = record[field]
        return example


@data_loader_factory.register_data_loader_cls(SentencePredictionTextDataConfig)
class SentencePredictionTextDataLoader(_LabelledDataLoader):
    """Reads texts, and cuts them into tokens."""

    def __init__(self, params: SentencePredictionTextDataConfig) -> None:
        """Checks the config.

        Raises:
            ConfigError: If no text fields are given, or the vocabulary can't be used.
            DataError: If its file is missing.
        """
        if not params.text_fields:
            raise errors.ConfigError(
                f"text_fields: got {params.text_fields!r}, expected the columns or features that "
                "hold the texts, such as ['sentence1', 'sentence2']."
            )
        self._params = params
        self._text_fields = list(params.text_fields)

    @functools.cached_property
    def text_processor(self) -> bert_inputs.TextProcessor:
        """Preprocessing of texts to the model's inputs."""
        params = self._params
        return bert_inputs.TextProcessor(
            params.seq_length, params.vocab_file, params.tokenization, params.lower_case
        )

    @property
    def _fields(self) -> list[str]:
        ids = ["example_id"] if self._params.include_example_id else []
        return [*self._text_fields, self._params.label_field, *ids]

    @override
    def name_to_features_spec(self) -> dict[str, Any]:
        params = self._params
        text = tf.io.FixedLenFeature([], tf.string)
        label_dtype = labelled_files.LABEL_DTYPES[params.label_type]
        spec: dict[str, Any] = dict.fromkeys(self._text_fields, text)
        spec[params.label_field] = (
            text if params.label_names else tf.io.FixedLenFeature([], label_dtype)
        )
        if params.include_example_id:
            spec["example_id"] = tf.io.FixedLenFeature([], tf.int64)
        return spec

    @override
    def _check_files(
        self, paths: list[str], labels: labelled_files.LabelRange, *, skips_damaged: bool
    ) -> None:
        if not self._is_tsv:
            super()._check_files(paths, labels, skips_damaged=skips_damaged)
            return
        params = self._params
        columns = labelled_files.find_columns(paths, self._fields, params.column_names)
        labelled_files.check_tsv(
            paths, columns, params.label_field, labels, skips_damaged=skips_damaged
        )

    @override
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns batches.

        Returns:
            `input_word_ids`, `input_mask`, `input_type_ids` `[B, S]` int32, and the label `[B]`
            int32 or float32 under the name of `label_field`.

        Raises:
            ConfigError: If the config contradicts itself or the vocabulary can't be used.
            DataError: If data or vocabulary is missing or wrong.
        """
        stages: dict[str, Any] = {"decoder_fn": self._decode}
        if self._is_tsv:
            stages = self._build_tsv_stages()
        processor = self.text_processor  # Fails before any data is read.
        del processor
        # A batch is cut into tokens at once: much faster than one text after the other.
        reader = input_reader.InputReader(
            self._params, postprocess_fn=self._bert_preprocess, **stages
        )
        with autograph.errors_unwrapped():
            return reader.read(input_context)

    @property
    def _is_tsv(self) -> bool:
        file_type, paths = self._params.file_type, data_loader.list_paths(self._params)
        is_tsv = file_type == "tsv"
        if file_type == "auto":
            is_tsv = all(path.endswith((".tsv", ".tsv.gz")) for path in paths)
        return bool(paths) and is_tsv

    def _build_tsv_stages(self) -> dict[str, Any]:
        paths = data_loader.find_files(self._params)
        columns = labelled_files.find_columns(paths, self._fields, self._params.column_names)
        skips = self._params.corrupt_records == "skip"
        parse_row = labelled_files.build_row_parser(columns, self._fields, skips_damaged=skips)

        def read(path: str | tf.Tensor) -> tf.data.Dataset:
            lines = input_files.read_filled_lines(path)
            return lines.skip(1) if columns.has_header else lines

        def decode(line: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._decode_label(parse_row(line))

        return {"dataset_fn": read, "decoder_fn": decode}

    def _decode(self, record: Any) -> dict[str, tf.Tensor]:
        if not isinstance(record, Mapping):
            return self._decode_label(
                tf.io.parse_single_example(record, self.name_to_features_spec())
            )
        for field in self._fields:
            if field not in record:
                raise errors.ConfigError(
                    f"text_fields, label_field: got {field!r}, but the entry has the features "
                    f"{', '.join(record)}.{errors.suggest(field, record)}"
                )
        return self._decode_label({field: record[field] for field in self._fields})

    def _decode_label(self, example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        params = self._params
        label = example[params.label_field]
        if params.label_names and label.dtype == tf.string:
            label = tf.argmax(tf.equal(label, params.label_names), output_type=tf.int32)
        elif label.dtype == tf.string:
            label = tf.strings.to_number(
                tf.strings.strip(label), labelled_files.LABEL_DTYPES[params.label_type]
            )
        decoded = {**example, params.label_field: label}
        if params.include_example_id and decoded["example_id"].dtype == tf.string:
            decoded["example_id"] = tf.strings.to_number(decoded["example_id"], tf.int64)
        return data_loader.to_int32(decoded)

    def _bert_preprocess(self, record: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Turns the texts of a batch into the inputs of the model."""
        inputs = self.text_processor([record[field] for field in self._text_fields])
        others = {name: value for name, value in record.items() if name not in self._text_fields}
        return {**inputs, **others}
