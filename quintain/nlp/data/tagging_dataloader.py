"""Sentences with a label for each word, as batches of token ids.

Shapes:
    B  examples in the batch
    S  positions
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.input import input_reader
from quintain.nlp.data import data_loader, data_loader_factory, labelled_files
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.labelled_tokens import tagged_sentences, token_examples
from quintain.nlp.data.masked import bert_vocabulary
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class TaggingDataConfig(cfg.DataConfig):
    """Sentences of labelled words: TFRecords of ids, or text.

    Files that end in `.conll`, `.tsv`, `.txt` (columns) or `.jsonl`, maybe with `.gz`, are text,
    which needs `vocab_file`.
    """

    is_training: bool | None = True
    """Whether the data is shuffled and repeated for training."""

    seq_length: ranges.Size = 128
    """Positions of an example. Longer sentences are cut in two."""

    include_sentence_id: bool = False
    """Whether examples say which sentence, and which part of it, they are: `sentence_id` and
    `sub_sentence_id`."""

    file_type: Literal["tfrecord"] = "tfrecord"
    """Format of files that are no text."""

    vocab_file: str = ""
    """WordPiece vocabulary or SentencePiece model of text. That of `train_data` holds for the
    whole task."""

    tokenization: bert_vocabulary.Tokenization = "WordPiece"
    """What kind of vocabulary it is."""

    lower_case: bool = True
    """Whether case does not count."""


@data_loader_factory.register_data_loader_cls(TaggingDataConfig)
class TaggingDataLoader(data_loader.DataLoader):
    """Reads labelled sentences."""

    def __init__(self, params: TaggingDataConfig) -> None:
        """Stores the config; `bundled:` paths become those of files of this package."""
        self._params = params.replace(
            input_path=bundled_corpora.find_file(params.input_path),
            vocab_file=bundled_corpora.find_file(params.vocab_file),
        )
        self._class_names: Sequence[str] = ()

    def check(self, class_names: Sequence[str]) -> None:
        """Stores the names of the classes, which text needs, and checks the labels of all records.

        Raises:
            DataError: If a label is none of them, with file and record.
        """
        self._class_names = class_names
        paths = data_loader.find_files(self._params)
        if paths and not self._is_text:
            labels = labelled_files.LabelRange(
                num_classes=len(class_names), lowest=tagged_sentences.IGNORED
            )
            skips = self._params.corrupt_records == "skip"
            shape = [self._params.seq_length]
            if not skips:
                labelled_files.check_features(paths, self._features)
            labelled_files.check_records(
                paths, "label_ids", labels, skips_damaged=skips, shape=shape
            )

    @override
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns batches.

        Returns:
            Features `input_word_ids`, `input_mask`, `input_type_ids` `[B, S]` and, where wanted,
            `sentence_id` and `sub_sentence_id` `[B]`; and labels `[B, S]`, -1 where there is none.
            All are int32.

        Raises:
            ConfigError: If text has no vocabulary.
            DataError: If a file is missing or empty, or a label of text unknown.
        """
        params = self._params
        reader = input_reader.InputReader(params, decoder_fn=self._decode, parser_fn=self._parse)
        records = None
        if self._is_text:
            records = token_examples.to_dataset(self._read_text(), params, input_context)
        return reader.read(input_context, records)

    @property
    def _is_text(self) -> bool:
        paths = data_loader.list_paths(self._params)
        return bool(paths) and all(map(tagged_sentences.is_text, paths))

    @property
    def _features(self) -> dict[str, Any]:
        ids = tf.io.FixedLenFeature([self._params.seq_length], tf.int64)
        names = ("input_ids", "input_mask", "segment_ids", "label_ids")
        features: dict[str, Any] = dict.fromkeys(names, ids)
        if self._params.include_sentence_id:
            number = tf.io.FixedLenFeature([], tf.int64)
            features |= {"sentence_id": number, "sub_sentence_id": number}
        return features

    def _read_text(self) -> Iterator[token_examples.Example]:
        params = self._params
        if params.seq_length < 3:
            raise errors.ConfigError(
                f"seq_length: got {params.seq_length}, expected at least 3: a word between two "
                "special tokens."
            )
        vocabulary = bert_vocabulary.load(
            params.vocab_file, params.tokenization, lower_case=params.lower_case
        )
        sentences = tagged_sentences.read(data_loader.find_files(params))
        return tagged_sentences.encode(
            ((one.words, tagged_sentences.to_ids(one, self._class_names)) for one in sentences),
            token_examples.tokenizer_of(vocabulary),
            token_examples.SpecialIds.of(vocabulary),
            params.seq_length,
        )

    def _decode(self, record: Any) -> dict[str, tf.Tensor]:
        if isinstance(record, Mapping):
            return dict(record)
        return data_loader.to_int32(tf.io.parse_single_example(record, self._features))

    def _parse(self, record: Mapping[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        new_names = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
        features = {new_names.get(name, name): value for name, value in record.items()}
        return features, features.pop("label_ids")
