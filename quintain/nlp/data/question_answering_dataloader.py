"""Questions on paragraphs, as batches of windows.

Shapes:
    B  examples in the batch
    S  positions
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import base_config
from quintain.input import input_reader
from quintain.nlp.data import data_loader, data_loader_factory
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.labelled_tokens import squad_features, squad_files, token_examples
from quintain.nlp.data.masked import bert_vocabulary
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg

_logger = logging.getLogger(__name__)

_LABELS = ("start_positions", "end_positions", "is_impossible")
_NEW_NAMES = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}


@dataclasses.dataclass
class QADataConfig(cfg.DataConfig):
    """Questions: JSON of SQuAD, which evaluation needs, or TFRecords to train on."""

    global_batch_size: cfg.NonNegativeInt = 48
    """Examples in a batch over all replicas."""

    is_training: bool | None = True
    """Whether the data is shuffled and repeated for training."""

    seq_length: ranges.Size = 384
    """Positions of an example: a question and a part of its paragraph."""

    version_2_with_negative: bool = False
    """Whether a question may have no answer, as in SQuAD 2.0."""

    input_preprocessed_data_path: str = base_config.unused(
        "", "Evaluation reads its questions into memory; no records of them are written."
    )
    """Kept for configs of the reference."""

    doc_stride: ranges.Size = 128
    """Tokens between the beginnings of two windows of a paragraph."""

    query_length: ranges.Size = 64
    """Most tokens of a question. Longer ones are cut."""

    vocab_file: str = ""
    """WordPiece vocabulary or SentencePiece model. That of `validation_data` holds for the whole
    task."""

    tokenization: bert_vocabulary.Tokenization = "WordPiece"
    """What kind of vocabulary it is."""

    do_lower_case: bool = True
    """Whether case does not count."""

    xlnet_format: bool = base_config.unused(False, "XLNet is not offered.")
    """Kept for configs of the reference."""

    file_type: Literal["tfrecord"] = "tfrecord"
    """Format of files that do not end in `.json` or `.json.gz`."""


def read_windows(
    params: QADataConfig,
) -> tuple[list[squad_files.Question], list[squad_features.Window]]:
    """Returns the questions of JSON files and their windows.

    Raises:
        ConfigError: If there is no vocabulary, or no room for a paragraph.
        DataError: If a file is missing or wrong.
    """
    if params.seq_length < params.query_length + 4:
        raise errors.ConfigError(
            f"seq_length: got {params.seq_length}, expected at least query_length + 4 = "
            f"{params.query_length + 4}: the question, three special tokens and a paragraph."
        )
    vocabulary = bert_vocabulary.load(
        params.vocab_file, params.tokenization, lower_case=params.do_lower_case
    )
    questions = squad_files.read(
        data_loader.find_files(params),
        is_training=bool(params.is_training),
        has_null=params.version_2_with_negative,
    )
    settings = squad_features.WindowSettings(
        params.seq_length, params.query_length, params.doc_stride
    )
    return questions, list(
        squad_features.encode(
            questions,
            token_examples.tokenizer_of(vocabulary),
            token_examples.SpecialIds.of(vocabulary),
            settings,
        )
    )


def count_cut(
    questions: Sequence[squad_files.Question], windows: Sequence[squad_features.Window]
) -> int:
    """Returns how many questions have an answer that no window shows as a whole."""
    shown = {one.index for one in windows if not one.example["is_impossible"][0]}
    return sum(bool(one.answers) for one in questions) - len(shown)


@data_loader_factory.register_data_loader_cls(QADataConfig)
class QuestionAnsweringDataLoader(data_loader.DataLoader):
    """Reads questions on paragraphs."""

    def __init__(self, params: QADataConfig) -> None:
        """Stores the config; `bundled:` paths become those of files of this package."""
        self._params = params.replace(
            input_path=bundled_corpora.find_file(params.input_path),
            vocab_file=bundled_corpora.find_file(params.vocab_file),
        )
        self.questions: Sequence[squad_files.Question] = ()
        """Questions of JSON files, once they are loaded."""
        self.windows: Sequence[squad_features.Window] = ()
        """Their windows."""

    @override
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns batches.

        Returns:
            Features `input_word_ids`, `input_mask`, `input_type_ids` `[B, S]`, and labels
            `start_positions` and `end_positions` `[B]`; in evaluation features have `unique_ids`
            `[B]` too. All are int32.

        Raises:
            ConfigError: If the config contradicts itself.
            DataError: If a file is missing or wrong.
        """
        params = self._params
        paths = data_loader.list_paths(params)
        records = None
        if paths and all(map(squad_files.is_json, paths)):
            self.questions, self.windows = read_windows(params)
            if params.is_training and (cut := count_cut(self.questions, self.windows)):
                _logger.warning(
                    "The answers to %d of %d questions are in no window as a whole, and count as "
                    "none. A larger seq_length shows more.",
                    cut,
                    len(self.questions),
                )
            examples = [window.example for window in self.windows]
            records = token_examples.to_dataset(examples, params, input_context)
        reader = input_reader.InputReader(params, decoder_fn=self._decode, parser_fn=self._parse)
        return reader.read(input_context, records)

    def _decode(self, record: Any) -> dict[str, tf.Tensor]:
        if isinstance(record, Mapping):
            return dict(record)
        ids = tf.io.FixedLenFeature([self._params.seq_length], tf.int64)
        number = tf.io.FixedLenFeature([], tf.int64)
        features: dict[str, Any] = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
        features |= dict.fromkeys(_LABELS[:2], number)
        if not self._params.is_training:
            features["unique_ids"] = number
        return data_loader.to_int32(tf.io.parse_single_example(record, features))

    def _parse(
        self, record: Mapping[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        features = {_NEW_NAMES.get(name, name): value for name, value in record.items()}
        return features, {name: features.pop(name) for name in _LABELS[:2]}
