"""Data loader of sentence pairs for translation: tokenised, and batched by length.

`input_path` may name

- TSV files (`*.tsv`, `*.tsv.gz`): `source<TAB>target` lines;
- text files, with their translations in `target_path`: line n belongs to line n;
- TFRecord files of `tf.train.Example`s, with the text in features `src_lang` and `tgt_lang`;
- a bundled corpus, such as `bundled:numbers_and_dates/train`.

`tfds_name` names a prepared TensorFlow Datasets entry instead, such as `wmt14_translate/de-en`,
with the text in features `src_lang` and `tgt_lang`, and `hf_name` a dataset of the Hugging Face
library. `mixture` lists several sources of any kind, to be drawn from by weight; so does a mapping
in `input_path` or `tfds_name` for sources of one kind.

TSV and text files, bundled corpora, Hugging Face datasets, and everything for evaluation are held
in memory, tokenised once. Training from TFRecord files and from TensorFlow Datasets is streamed.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import tensorflow as tf
from annotated_types import Ge, Lt

from quintain import errors
from quintain.input import input_reader
from quintain.nlp.data import data_loader, data_loader_factory, tokenizers
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.pairs import (
    hub_pairs,
    length_buckets,
    packed_pairs,
    pair_formats,
    pair_mixture,
    parallel_text,
    streamed_pairs,
    translation_records,
)
from quintain.settings import config_definitions as cfg

_logger = logging.getLogger(__name__)


@dataclasses.dataclass
class WMTDataConfig(cfg.DataConfig):
    """Sentence pairs for translation.

    `global_batch_size` counts tokens of the longer side, padding included, or sentence pairs, as
    `batch_by` says.
    """

    max_seq_length: Annotated[int, Ge(2), Lt(2**31)] = 64
    """Most tokens of a sentence, its end included. Training leaves longer pairs out; evaluation
    cuts them."""

    batch_by: Literal["tokens", "pairs"] | None = None
    """What `global_batch_size` counts in evaluation; training counts `tokens`. None takes `tokens`
    as well, but `pairs` with `static_batch` and in translation tasks."""

    static_batch: bool = False
    """Whether all batches have the same shape, padded to `max_seq_length`, as XLA likes it."""

    sentencepiece_model_path: str = ""
    """SentencePiece model that cuts text into tokens. The task fills it in."""

    target_sentencepiece_model_path: str = ""
    """SentencePiece model of the target, if it is another. The task fills it in."""

    src_lang: str = ""
    """Name of the source text in TFRecord files and in TensorFlow Datasets."""

    tgt_lang: str = ""
    """Name of the target text in TFRecord files and in TensorFlow Datasets."""

    transform_and_batch: bool = True
    """Whether to tokenise and batch. False gives single pairs of strings, once, in order."""

    has_unique_id: bool = False
    """Whether TFRecord files number their pairs in a feature `unique_id`, from 0. Batches of
    evaluation by `batch_by: pairs` have it in any case: the pair's place in the data."""

    target_path: Any = ""
    """Text files that translate those of `input_path` line by line."""

    file_format: pair_formats.FileFormat = "auto"
    """What `input_path` holds. `auto` goes by `target_path` and the files' names."""

    hf_name: str = ""
    """Dataset of the Hugging Face library: a name on its hub, a file or a directory. The texts are
    in `src_lang` and `tgt_lang`, columns or keys of a column `translation`."""

    hf_config: str = ""
    """Configuration of the dataset in `hf_name`, such as `de-en`."""

    hf_split: str = ""
    """Split of the dataset in `hf_name`, such as `train`; may be empty if there is only one."""

    mixture: Any = None
    """Several sources: a list, or a mapping of names to them, each a mapping with fields of this
    config and its `weight` (1 by default). Training draws pairs by weight, evaluation reads one
    source after the other."""


def get_shortest_length(params: WMTDataConfig) -> int:
    """Returns to how many tokens the shortest pairs are padded in training."""
    if params.static_batch:
        return params.max_seq_length
    return min(length_buckets.get_boundaries(params.max_seq_length))


def read_pairs(params: WMTDataConfig) -> list[tuple[str, str]]:
    """Reads the whole corpus that a config names, whatever its format.

    The `unique_id` of a pair in evaluation is its place in this list. Training (`is_training`)
    leaves out pairs with an empty side.

    Raises:
        ConfigError: If the config names no data, or does not say what it is.
        DataError: If a file is missing or wrong; the message says where.
    """
    pair_formats.check_one_source(params)
    if params.mixture:
        return [pair for part in pair_mixture.get_parts(params) for pair in read_pairs(part.params)]
    if pair_formats.is_mapping(params.input_path):
        return [pair for part in pair_formats.split_sources(params) for pair in read_pairs(part)]
    bundled = pair_formats.find_bundled(params)
    if bundled:
        return bundled_corpora.get_pairs(bundled)
    file_format = "" if params.tfds_name or params.hf_name else pair_formats.find_format(params)
    skips, keeps_empty = params.corrupt_records == "skip", not params.is_training
    if file_format == "tsv":
        paths = input_reader.match_files(params.input_path)
        return parallel_text.read_tsv(paths, keep_empty=keeps_empty, skips_damaged=skips)
    if file_format == "text":
        paths, target_paths = (
            input_reader.match_files(getattr(params, name), name=name)
            for name in ("input_path", "target_path")
        )
        return parallel_text.read_aligned(paths, target_paths, keep_empty=keeps_empty)
    record_format = pair_formats.get_record_format(params)
    if params.tfds_name:
        pairs = streamed_pairs.read_tfds_pairs(params, record_format)
    elif params.hf_name:
        pairs = hub_pairs.read_pairs(
            params.hf_name,
            config=params.hf_config,
            split=params.hf_split,
            src_lang=record_format.source,
            tgt_lang=record_format.target,
        )
    else:
        paths = input_reader.match_files(params.input_path)
        pairs = translation_records.read_pairs(paths, record_format, skips_damaged=skips)
    return [pair for pair in pairs if keeps_empty or all(map(str.strip, pair))]


@data_loader_factory.register_data_loader_cls(WMTDataConfig)
class WMTDataLoader(data_loader.DataLoader):
    """Builds the batches of a translation task.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/vocabulary.model"
        >>> params = WMTDataConfig(
        ...     input_path="bundled:numbers_and_dates/test", is_training=False,
        ...     global_batch_size=64, batch_by="pairs", sentencepiece_model_path=path,
        ... )
        >>> sentences = (side for pair in read_pairs(params) for side in pair)
        >>> tokenizers.train_sentencepiece(sentences, path, vocab_size=300)
        >>> batch = next(iter(WMTDataLoader(params).load()))
        >>> sorted(batch), batch["inputs"].shape[0]
        (['inputs', 'targets', 'unique_id'], 64)
    """

    def __init__(self, params: WMTDataConfig) -> None:
        self._params = params

    @functools.cached_property
    def _tokenizers(self) -> tokenizers.Sides:
        if not self._params.sentencepiece_model_path:
            raise errors.ConfigError(
                "sentencepiece_model_path: got '', expected a SentencePiece model. "
                "`tokenizers.train_sentencepiece` makes one; a translation task does so by itself."
            )
        source = tokenizers.SentencePieceTokenizer(self._params.sentencepiece_model_path)
        target_path = self._params.target_sentencepiece_model_path
        if not target_path:
            return source, source
        return source, tokenizers.SentencePieceTokenizer(target_path)

    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the batches of this worker.

        Training batches never end and are shuffled; evaluation gives every pair exactly once: in
        order, or by tokens with others of about its length. The position of an iterator can be
        saved in a checkpoint and restored exactly.

        Returns:
            Dictionaries with `inputs` `[B, S]` and `targets` `[B, T]`, int32, padded with 0; in
            evaluation by pairs, or with `has_unique_id`, also `unique_id` `[B]` int32, the pair's
            place in `read_pairs`.

        Raises:
            ConfigError: If the config contradicts itself, or the batch is too small.
            DataError: If the data or the vocabulary is wrong.
        """
        params = self._params
        if not params.transform_and_batch:
            dataset = self._build_raw_dataset()
        elif params.is_training:
            dataset = self._build_training_dataset(input_context)
        else:
            dataset = self._build_evaluation_dataset(input_context)
        return input_reader.finish(dataset, params)

    def _build_evaluation_dataset(
        self, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        params = self._params
        if params.enable_tf_data_service:
            _logger.warning(
                "enable_tf_data_service: evaluation pairs are held in memory and batched in "
                "this process, without the service."
            )
        packed = packed_pairs.pack_for_evaluation(
            read_pairs(params), self._tokenizers, max_length=params.max_seq_length
        )
        has_unique_id = params.has_unique_id or params.batch_by == "pairs"
        shared = self._shard(packed, input_context)
        if params.batch_by == "tokens" or not (params.batch_by or params.static_batch):
            batching = self._plan_batches(input_context)
            return batching.batch(packed_pairs.build_evaluation_examples(shared, has_unique_id))
        return packed_pairs.build_evaluation_dataset(
            shared,
            batch_size=input_reader.per_replica_batch_size(params, input_context),
            padded_length=params.max_seq_length if params.static_batch else None,
            has_unique_id=has_unique_id,
        )

    def _build_raw_dataset(self) -> tf.data.Dataset:
        pairs = read_pairs(self._params)
        return tf.data.Dataset.from_tensor_slices(
            {
                self._params.src_lang or "inputs": [source for source, _ in pairs],
                self._params.tgt_lang or "targets": [target for _, target in pairs],
                "unique_id": np.arange(len(pairs), dtype=np.int64),
            }
        )

    def _shard(
        self,
        packed: packed_pairs.PackedPairs,
        input_context: tf.distribute.InputContext | None,
    ) -> packed_pairs.PackedPairs:
        if input_context is None or not self._params.sharding:
            return packed
        return packed_pairs.shard(
            packed,
            num_shards=input_context.num_input_pipelines,
            index=input_context.input_pipeline_id,
        )

    def _build_training_dataset(
        self, input_context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        params = self._params
        pair_formats.check_one_source(params)
        batching = self._plan_batches(input_context)
        seed = input_reader.get_seed(params, input_context)
        if params.mixture:
            examples = pair_mixture.draw(
                pair_mixture.get_parts(params),
                lambda part: WMTDataLoader(part.params)._build_examples(input_context),
                seed=seed,
            )
            return batching.batch(examples)
        stream_format = pair_formats.find_stream_format(params)
        if stream_format:
            return self._stream(stream_format, batching.batch, input_context)
        packed = self._pack_for_training(input_context)
        if batching.padded_length is not None:
            return packed_pairs.build_static_training_dataset(
                packed,
                batch_size=batching.batch_sizes[0],
                padded_length=batching.padded_length,
                seed=seed,
            )
        return packed_pairs.build_dynamic_training_dataset(
            packed, boundaries=batching.boundaries, batch_sizes=batching.batch_sizes, seed=seed
        )

    def _build_examples(self, input_context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        """Returns endless single pairs, `inputs` `[S]` and `targets` `[T]`."""
        stream_format = pair_formats.find_stream_format(self._params)
        if stream_format:
            return self._stream(stream_format, lambda dataset: dataset, input_context)
        return packed_pairs.build_example_dataset(
            self._pack_for_training(input_context),
            seed=input_reader.get_seed(self._params, input_context),
        )

    def _stream(
        self,
        stream_format: pair_formats.StreamFormat,
        batch: Callable[[tf.data.Dataset], tf.data.Dataset],
        input_context: tf.distribute.InputContext | None,
    ) -> tf.data.Dataset:
        return streamed_pairs.stream(
            self._params, stream_format, self._tokenizers, batch=batch, input_context=input_context
        )

    def _plan_batches(
        self, input_context: tf.distribute.InputContext | None
    ) -> length_buckets.Batching:
        return length_buckets.plan(
            self._params.max_seq_length,
            input_reader.per_replica_batch_size(self._params, input_context),
            is_static=self._params.static_batch,
        )

    def _pack_for_training(
        self, input_context: tf.distribute.InputContext | None
    ) -> packed_pairs.PackedPairs:
        packed = packed_pairs.pack_for_training(
            read_pairs(self._params), self._tokenizers, max_length=self._params.max_seq_length
        )
        return self._shard(packed, input_context)
