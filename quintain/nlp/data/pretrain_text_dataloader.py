"""Masked words from raw text: packed, masked anew at every pass, batched.

Shapes:
    B  examples in the batch
    S  positions
    M  masked positions
    L  tokens of a text
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import tensorflow as tf
from annotated_types import Ge, Lt
from typing_extensions import override

from quintain import errors
from quintain.core.steps import autograph
from quintain.input import input_files, input_reader, line_files
from quintain.nlp.data import data_loader, data_loader_factory
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.masked import bert_vocabulary, masking, text_packing
from quintain.optimization.configs import ranges
from quintain.orbit import iterators
from quintain.settings import config_definitions as cfg

Size = ranges.Size

_TEXT_ENDINGS = (".txt", ".txt.gz", ".text", ".gz")


@dataclasses.dataclass
class BertPretrainTextDataConfig(cfg.DataConfig):
    """Raw text: files with a text a line, TFRecords, TensorFlow Datasets, or a bundled corpus."""

    doc_batch_size: Annotated[int, Ge(2), Lt(2**31)] = 8
    """Parts of the text that are paired with each other under `use_next_sentence_label`."""

    global_batch_size: cfg.NonNegativeInt = 512
    """Examples in a batch over all replicas."""

    is_training: bool | None = True
    """Whether the data is shuffled and repeated for training."""

    seq_length: Annotated[int, Ge(5), Lt(2**31)] = 512
    """Positions of an example. Texts are joined until they fill it."""

    max_predictions_per_seq: Size = 76
    """Most masked positions of an example."""

    use_next_sentence_label: bool = True
    """Whether examples are pairs of segments, and say if the second follows the first. Otherwise
    they are texts, parted by `[SEP]`."""

    text_field_names: list[str] | None = dataclasses.field(default_factory=lambda: ["text"])
    """Features with the texts, where the data is not lines; several are joined in this order."""

    tokenization: bert_vocabulary.Tokenization = "WordPiece"
    """What kind of vocabulary `vocab_file_path` is."""

    vocab_file_path: str = ""
    """WordPiece vocabulary (a token a line) or SentencePiece model, with `[CLS]`, `[SEP]` and
    `[MASK]`."""

    lower_case: bool = True
    """Whether case does not count; WordPiece then drops accents as well."""

    masking_rate: ranges.PositiveShare = 0.15
    """Share of the tokens that are to be predicted."""

    use_whole_word_masking: bool = False
    """Whether all tokens of a word are masked together."""

    file_type: Literal["auto", "tfrecord", "text"] = "auto"
    """What `input_path` holds. `auto` takes files whose names end in `.txt`, `.text` or `.gz`, but
    for `.tfrecord.gz`, as text."""


@data_loader_factory.register_data_loader_cls(BertPretrainTextDataConfig)
class BertPretrainTextDataLoader(data_loader.DataLoader):
    """Cuts text into tokens, packs them into sequences and masks some."""

    def __init__(self, params: BertPretrainTextDataConfig) -> None:
        """Checks the config.

        Raises:
            ConfigError: If records have no field with text.
        """
        if not params.text_field_names:
            raise errors.ConfigError(
                f"text_field_names: got {params.text_field_names!r}, expected the features that "
                "hold the texts."
            )
        if params.use_next_sentence_label and len(params.text_field_names) > 1:
            raise errors.ConfigError(
                f"text_field_names: got {len(params.text_field_names)} fields, expected one with "
                "use_next_sentence_label."
            )
        self._params = params.replace(input_path=bundled_corpora.find_file(params.input_path))

    @functools.cached_property
    def vocabulary(self) -> bert_vocabulary.BertVocabulary:
        """The vocabulary."""
        params = self._params
        return bert_vocabulary.load(
            params.vocab_file_path,
            params.tokenization,
            lower_case=params.lower_case,
            field="vocab_file_path",
        )

    @override
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns batches, with other masks at every pass; evaluation has always the same.

        Returns:
            `input_word_ids`, `input_mask`, `input_type_ids` `[B, S]` int32, `masked_lm_positions`
            and `masked_lm_ids` `[B, M]` int32, `masked_lm_weights` `[B, M]` float32, and under
            `use_next_sentence_label` `next_sentence_labels` `[B, 1]` int32.

        Raises:
            ConfigError: If the config contradicts itself or the vocabulary can't be used.
            DataError: If data or vocabulary is missing.
        """
        rules = masking.MaskingRules.from_vocabulary(
            self.vocabulary,
            max_predictions=self._params.max_predictions_per_seq,
            masking_rate=self._params.masking_rate,
            whole_words=self._params.use_whole_word_masking,
        )
        stages: dict[str, Any] = {"decoder_fn": self._decode_record}
        params = self._params
        if self._is_lines:
            # What stands side by side in a file belongs together: sequences are shuffled instead.
            stages = {"dataset_fn": input_files.read_filled_lines}
            params = params.replace(shuffle_buffer_size=0)
            line_files.check_utf8(data_loader.find_files(params))
        reader = input_reader.InputReader(
            params,
            parser_fn=self._tokenize,
            transform_and_batch_fn=functools.partial(self._pack_and_batch, rules),
            **stages,
        )
        with autograph.errors_unwrapped():
            dataset = reader.read(input_context)
            self._check_text(stages)
        return dataset

    def _check_text(self, stages: Mapping[str, Any]) -> None:
        """Checks that there is a token, for which training would wait for ever.

        In evaluation, where the text is read once, it must be enough for a pair.
        """
        params = self._params.replace(is_training=False, enable_tf_data_service=False)
        needs_pair = params.use_next_sentence_label and not self._params.is_training
        num_needed = params.seq_length - 3 if needs_pair else 1

        def find_enough(texts: tf.data.Dataset, _: Any) -> tf.data.Dataset:
            counts = texts.map(tf.size).scan(0, lambda sum_, size: (sum_ + size, sum_ + size))
            return counts.filter(lambda count: count >= num_needed).take(1)

        reader = input_reader.InputReader(
            params, parser_fn=self._tokenize, transform_and_batch_fn=find_enough, **stages
        )
        if next(iterators.create(reader.read()), None) is None:
            field = "input_path" if params.input_path else "tfds_name"
            needed = f"less than {num_needed} tokens" if needs_pair else "no token"
            raise errors.DataError(
                f"{field}: got {getattr(params, field)!r}, whose text has {needed} of the "
                f"vocabulary {params.vocab_file_path!r}. Check the path and the vocabulary."
            )

    @property
    def _is_lines(self) -> bool:
        params, paths = self._params, data_loader.list_paths(self._params)
        if not paths or params.file_type == "tfrecord":
            return False
        is_text = [path.endswith(_TEXT_ENDINGS) and ".tfrecord" not in path for path in paths]
        return params.file_type == "text" or all(is_text)

    def _decode_record(self, record: Any) -> tf.Tensor:
        names = list(self._params.text_field_names or ())
        if not isinstance(record, Mapping):
            spec = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
            record = tf.io.parse_single_example(record, spec)
        for name in names:
            if name not in record:
                raise errors.ConfigError(
                    f"text_field_names: got {name!r}, but the entry has the features "
                    f"{', '.join(record)}.{errors.suggest(name, record)}"
                )
        return tf.stack([record[name] for name in names])

    def _tokenize(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns `[L]` int32, the tokens of a text, or of the texts of a record."""
        return self.vocabulary.tokenize(tf.reshape(texts, [-1])).flat_values

    def _pack_and_batch(
        self,
        rules: masking.MaskingRules,
        texts: tf.data.Dataset,
        input_context: tf.distribute.InputContext | None,
    ) -> tf.data.Dataset:
        params = self._params
        seed = input_reader.get_seed(params, input_context)
        batch_size = input_reader.per_replica_batch_size(params, input_context)
        is_training = bool(params.is_training)
        if params.use_next_sentence_label:
            examples = self._build_pairs(texts, seed)
        else:
            examples = text_packing.pack_stream(
                texts, seq_length=params.seq_length, vocabulary=self.vocabulary
            ).map(lambda ids: {"input_word_ids": ids, "input_type_ids": tf.zeros_like(ids)})
        if is_training and params.shuffle_buffer_size > 1:
            examples = examples.shuffle(params.shuffle_buffer_size, seed=seed)
        batches = examples.batch(batch_size, drop_remainder=is_training and params.drop_remainder)
        return batches.enumerate().map(
            lambda number, batch: self._mask(batch, rules, tf.stack([_to_int64(seed), number])),
            num_parallel_calls=tf.data.AUTOTUNE,
        )

    def _build_pairs(self, texts: tf.data.Dataset, seed: int) -> tf.data.Dataset:
        params = self._params
        parts = text_packing.cut_stream(texts, length=params.seq_length - 3)
        full = parts.filter(lambda part: tf.reduce_all(part != bert_vocabulary.PAD_ID))
        groups = full.batch(params.doc_batch_size).enumerate()
        return groups.map(
            lambda number, group: text_packing.pair_parts(
                group, tf.stack([_to_int64(seed) + 1, number]), vocabulary=self.vocabulary
            ),
            num_parallel_calls=tf.data.AUTOTUNE,
        ).unbatch()

    def _mask(
        self, batch: dict[str, tf.Tensor], rules: masking.MaskingRules, seed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        is_token = batch["input_word_ids"] != bert_vocabulary.PAD_ID
        masked = masking.mask_words(batch["input_word_ids"], rules, seed)
        return {**batch, "input_mask": tf.cast(is_token, tf.int32), **masked}


def _to_int64(seed: int) -> tf.Tensor:
    return tf.constant(seed, tf.int64)
