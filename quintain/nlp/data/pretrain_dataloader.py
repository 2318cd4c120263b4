"""Examples of masked words in the fixed-length TFRecord format of BERT."""

import dataclasses
from typing import Any, Literal

import tensorflow as tf
from typing_extensions import override

from quintain.input import input_reader
from quintain.nlp.data import data_loader, data_loader_factory
from quintain.optimization.configs import ranges
from quintain.reference import reference_names
from quintain.settings import config_definitions as cfg

__getattr__ = reference_names.refusing(__name__)

Size = ranges.Size


@dataclasses.dataclass
class PretrainRecordsConfig(cfg.DataConfig):
    """TFRecords of masked words, of whatever lengths."""

    global_batch_size: cfg.NonNegativeInt = 512
    """Examples in a batch over all replicas, whatever their length."""

    is_training: bool | None = True
    """Whether the data is shuffled and repeated for training."""

    use_next_sentence_label: bool = True
    """Whether examples say if their second sentence follows the first."""

    use_position_id: bool = False
    """Whether examples give the positions of their tokens, in `position_ids`."""

    use_v2_feature_names: bool = False
    """Whether features are called `input_word_ids`, `input_type_ids` instead of `input_ids`,
    `segment_ids`."""

    file_type: Literal["tfrecord"] = "tfrecord"
    """Format of the files."""


@dataclasses.dataclass
class BertPretrainDataConfig(PretrainRecordsConfig):
    """Files and sizes of pretraining examples."""

    seq_length: Size = 512
    """Positions of an example."""

    max_predictions_per_seq: Size = 76
    """Masked positions of an example."""


@data_loader_factory.register_data_loader_cls(BertPretrainDataConfig)
class BertPretrainDataLoader(data_loader.DataLoader):
    """Reads examples: ids, mask, types, and masked positions with their words and weights."""

    def __init__(self, params: BertPretrainDataConfig) -> None:
        self._params = params
        self._features = build_features(params, params.seq_length, params.max_predictions_per_seq)

    @override
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns batches of int32 and float32 tensors by name."""
        reader = input_reader.InputReader(
            self._params, decoder_fn=self._decode, parser_fn=self._parse
        )
        return reader.read(input_context)

    def _decode(self, record: tf.Tensor) -> Any:
        return tf.io.parse_single_example(
            record, {name: feature for name, (_, feature) in self._features.items()}
        )

    def _parse(self, example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        named = {name: example[key] for key, (name, _) in self._features.items()}
        return data_loader.to_int32(named)


def build_features(
    params: PretrainRecordsConfig, length: int, num_masked: int
) -> dict[str, tuple[str, tf.io.FixedLenFeature]]:
    """Returns the features of a record: what the model calls each, and its form.

    `length` and `num_masked` are the positions of an example, and the masked ones among them.
    """
    ids = tf.io.FixedLenFeature([length], tf.int64)
    masked = tf.io.FixedLenFeature([num_masked], tf.int64)
    is_v2 = params.use_v2_feature_names
    features = {
        "input_word_ids" if is_v2 else "input_ids": ("input_word_ids", ids),
        "input_mask": ("input_mask", ids),
        "input_type_ids" if is_v2 else "segment_ids": ("input_type_ids", ids),
        "masked_lm_positions": ("masked_lm_positions", masked),
        "masked_lm_ids": ("masked_lm_ids", masked),
        "masked_lm_weights": (
            "masked_lm_weights",
            tf.io.FixedLenFeature([num_masked], tf.float32),
        ),
    }
    if params.use_next_sentence_label:
        label = tf.io.FixedLenFeature([1], tf.int64)
        features["next_sentence_labels"] = ("next_sentence_labels", label)
    if params.use_position_id:
        features["position_ids"] = ("position_ids", ids)
    return features
