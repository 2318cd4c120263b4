"""Examples of masked words of different lengths, batched with others of about their length.

Shapes:
    B  examples in the batch
    S  positions, one of a few lengths
    M  masked positions
"""

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.input import input_reader
from quintain.nlp.data import data_loader, data_loader_factory, pretrain_dataloader
from quintain.optimization.configs import ranges

_MASK_FIELDS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


@dataclasses.dataclass
class BertPretrainDataConfig(pretrain_dataloader.PretrainRecordsConfig):
    """TFRecords with sequences of different lengths."""

    seq_bucket_lengths: list[ranges.Size] = dataclasses.field(
        default_factory=lambda: [128, 256, 384, 512]
    )
    """Lengths to which sequences are padded: the shortest that holds them."""

    seq_bucket_window_scale: ranges.Size = 8
    """How many batches of one length for each replica follow each other under a tf.data service,
    whose consumers do not take them in turn."""

    tf_data_service_job_name: str | None = "bert_pretrain"
    """Name of the tf.data service job, as `DataConfig` says."""

    enable_round_robin_tf_data_service: bool = False
    """Whether all replicas take batches of a tf.data service in turn, of one length in a step."""


@data_loader_factory.register_data_loader_cls(BertPretrainDataConfig)
class PretrainingDynamicDataLoader(pretrain_dataloader.BertPretrainDataLoader):
    """Reads examples, and gives all replicas sequences of the same length in a step."""

    def __init__(self, params: BertPretrainDataConfig) -> None:
        """Checks the config.

        Raises:
            ConfigError: If the lengths are not in ascending order.
        """
        lengths = list(params.seq_bucket_lengths)
        if not lengths or lengths != sorted(set(lengths)):
            raise errors.ConfigError(
                f"seq_bucket_lengths: got {lengths}, expected lengths in ascending order."
            )
        self._params: Any = params
        self._lengths = lengths
        self._features = {
            key: (name, tf.io.VarLenFeature(feature.dtype))
            for key, (name, feature) in pretrain_dataloader.build_features(params, 1, 1).items()
        }

    @override
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns batches whose number of positions is one of `seq_bucket_lengths`."""
        reader = input_reader.InputReader(
            self._params,
            decoder_fn=self._decode,
            parser_fn=self._parse,
            transform_and_batch_fn=self._batch_by_length,
        )
        return reader.read(input_context)

    @override
    def _parse(self, example: dict[str, Any]) -> dict[str, tf.Tensor]:
        dense = {
            name: tf.sparse.to_dense(example[key]) for key, (name, _) in self._features.items()
        }
        # The padding of records of one length would put all of them into the longest bucket.
        is_filled = tf.cumsum(dense["input_word_ids"], reverse=True) > 0
        for name in dense.keys() - {*_MASK_FIELDS, "next_sentence_labels"}:
            dense[name] = tf.boolean_mask(dense[name], is_filled)
        # Some writers fill up with -1 instead of a weight of 0.
        is_word = dense["masked_lm_ids"] >= 0
        for name in _MASK_FIELDS:
            dense[name] = tf.where(is_word, dense[name], tf.zeros_like(dense[name]))
        return data_loader.to_int32(dense)

    def _batch_by_length(
        self, dataset: tf.data.Dataset, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        params = self._params
        batch_size = input_reader.per_replica_batch_size(params, input_context)
        num_batches = input_context.num_replicas_in_sync if input_context else 1
        if params.enable_tf_data_service:
            num_batches *= params.seq_bucket_window_scale
        lengths = tf.constant(self._lengths, tf.int64)
        fixed = {"next_sentence_labels": [1]}

        def find_bucket(example: dict[str, tf.Tensor]) -> tf.Tensor:
            length = tf.size(example["input_word_ids"], tf.int64)
            message = (
                f"seq_bucket_lengths: an example is longer than the longest, {self._lengths[-1]}"
            )
            with tf.control_dependencies(
                [tf.debugging.Assert(length <= lengths[-1], [message, length])]
            ):
                return tf.searchsorted(lengths, [length], "left", tf.int64)[0]

        def pad(bucket: tf.Tensor, window: tf.data.Dataset) -> tf.data.Dataset:
            shapes = {
                name: fixed.get(name, [-1] if name in _MASK_FIELDS else [lengths[bucket]])
                for name, _ in self._features.values()
            }
            return window.padded_batch(
                batch_size,
                padded_shapes={name: tf.cast(tf.stack(s), tf.int64) for name, s in shapes.items()},
                drop_remainder=bool(params.is_training) and params.drop_remainder,
            )

        return dataset.group_by_window(find_bucket, pad, window_size=batch_size * num_batches)
