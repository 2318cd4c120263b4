"""Streams of sentence pairs for training, from TFRecord or TSV files or TensorFlow Datasets.

Shapes:
    S  source tokens, EOS included
    T  target tokens, EOS included
"""

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.input import input_files, input_reader, input_sources, tfds_source
from quintain.nlp.data import data_loader, tokenizers
from quintain.nlp.data.pairs import pair_formats, parallel_text, translation_records
from quintain.orbit import iterators
from quintain.settings import config_definitions as cfg

Example = dict[str, tf.Tensor]
TextDecoder = Callable[[Any], Example]

_CHUNK = 1_024


def read_tfds_pairs(
    params: cfg.DataConfig, record_format: translation_records.RecordFormat
) -> list[tuple[str, str]]:
    """Reads all pairs of the TensorFlow Datasets entries that a config names, one by one.

    Of the config only names and splits are used, so that the order is always the same.

    Raises:
        ConfigError: If an entry is unknown or lacks one of the features.
        DataError: If an entry is not prepared.
    """
    pairs: list[tuple[str, str]] = []
    for _, texts in _read_tfds(params, record_format):
        for batch in iterators.create_numpy(texts.batch(_CHUNK)):
            sides = ([text.decode("utf-8") for text in batch[key]] for key in ("inputs", "targets"))
            pairs += zip(*sides, strict=True)
    return pairs


def _read_tfds(
    params: cfg.DataConfig, record_format: translation_records.RecordFormat
) -> Iterator[tuple[str, tf.data.Dataset]]:
    """Yields the name and the pairs of strings of every entry, in the entry's own order."""
    plain = cfg.DataConfig(tfds_data_dir=params.tfds_data_dir, tfds_download=params.tfds_download)
    for source in input_sources.get_sources(params):
        builder = tfds_source.build_builder(source, plain)
        _check_features(builder, source, record_format)
        entry = tfds_source.read(builder, source, plain, seed=None)
        yield str(source.location), entry.map(_build_tfds_decoder(record_format))


def _build_tfds_decoder(record_format: translation_records.RecordFormat) -> TextDecoder:
    def decode(example: Example) -> Example:
        return {"inputs": example[record_format.source], "targets": example[record_format.target]}

    return decode


def _check_features(
    builder: Any, source: input_sources.Source, record_format: translation_records.RecordFormat
) -> None:
    features = builder.info.features
    known = [name for name in features if features[name].dtype in (str, tf.string, object)]
    for field, name in (("src_lang", record_format.source), ("tgt_lang", record_format.target)):
        if name not in known:
            raise errors.ConfigError(
                f"{field}: got {name!r}, expected a text feature of {source.location!r}: "
                f"{', '.join(known) or 'it has none'}.{errors.suggest(name, known)}"
            )


def stream(
    params: Any,
    stream_format: pair_formats.StreamFormat,
    tokenizer: tokenizers.SentencePieceTokenizer | tokenizers.Sides,
    *,
    batch: Callable[[tf.data.Dataset], tf.data.Dataset],
    input_context: tf.distribute.InputContext | None,
) -> tf.data.Dataset:
    """Reads, shuffles, tokenises and batches training pairs.

    A tf.data service reads, shuffles and mixes the text; it is tokenised here, because a tokenizer
    belongs to a process.

    Args:
        params: A `WMTDataConfig`. Longer pairs than its `max_seq_length` are left out, and so are
            empty ones.
        stream_format: What it names.
        tokenizer: Cuts text into tokens; or two, one for each side.
        batch: Maps the dataset of examples, `inputs` `[S]` and `targets` `[T]`, to one of batches.
        input_context: Which part of the data this worker reads.

    Raises:
        ConfigError: If an entry of TensorFlow Datasets is unknown or lacks one of the features.
        DataError: If a source is missing or wrong, or no pair at its start may be used.
    """
    tokenization = translation_records.PairTokenization(tokenizer, params.max_seq_length)
    decode = _check_and_build_decoder(params, stream_format, tokenization)
    stages: dict[str, Any] = {
        "parser_fn": tokenization.tokenize,
        "filter_fn": tokenization.is_usable,
        "transform_and_batch_fn": lambda dataset, _: batch(dataset),
    }

    def finish_served(dataset: tf.data.Dataset, context: Any) -> tf.data.Dataset:
        del context  # The sizes are those of a replica already.
        dataset = dataset.map(
            tokenization.tokenize, num_parallel_calls=tf.data.AUTOTUNE, name="parse"
        )
        return batch(dataset.filter(tokenization.is_usable, name="filter"))

    if params.enable_tf_data_service:
        params = params.replace(apply_tf_data_service_before_batching=True)
        stages = {"transform_and_batch_fn": finish_served}
    read = input_files.read_filled_lines if stream_format == "tsv" else tf.data.TFRecordDataset
    return input_reader.InputReader(params, read, decode, **stages).read(input_context)


def _check_and_build_decoder(
    params: Any,
    stream_format: pair_formats.StreamFormat,
    tokenization: translation_records.PairTokenization,
) -> TextDecoder:
    """Checks the data, and returns what maps a record of it to two strings."""
    if stream_format == "tsv":
        _check_tsv(params, tokenization)
        return _decode_tsv
    record_format = pair_formats.get_record_format(params)
    if stream_format == "tfds":
        for name, texts in _read_tfds(params, record_format):
            tokenization.check(name, texts)
        return _build_tfds_decoder(record_format)
    translation_records.check_files(data_loader.find_files(params), record_format, tokenization)
    return translation_records.build_text_decoder(record_format)


def _decode_tsv(line: tf.Tensor) -> Example:
    """Maps a line `source<TAB>target` to the strings `inputs` and `targets`, both scalars."""
    parts = tf.strings.split(tf.strings.regex_replace(line, "^\ufeff|\r$", ""), "\t")
    return {"inputs": parts[0], "targets": parts[1]}


def _check_tsv(params: Any, tokenization: translation_records.PairTokenization) -> None:
    """Reads whole TSV files once, so that a wrong line is named before training starts."""
    skips = params.corrupt_records == "skip"
    for path in data_loader.find_files(params):
        start = parallel_text.read_tsv([path], skips_damaged=skips)[:_CHUNK]
        sides = [[pair[side] for pair in start] for side in range(2)]
        texts = tf.data.Dataset.from_tensor_slices({"inputs": sides[0], "targets": sides[1]})
        tokenization.check(path, texts)
