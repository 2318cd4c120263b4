"""Streams sentence pairs for training: from TFRecord or TSV files, from TensorFlow Datasets, mixed.

Shapes:
    S  source tokens, EOS included
    T  target tokens, EOS included
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.input import input_reader, input_sources, tfds_source
from quintain.nlp.data import tokenizers
from quintain.nlp.data.pairs import parallel_text, translation_records
from quintain.orbit import iterators
from quintain.settings import config_definitions as cfg

Example = dict[str, tf.Tensor]
TextDecoder = Callable[[Any], Example]

_CHUNK = 1_024


def decode_tsv(line: tf.Tensor) -> Example:
    """Maps a line `source<TAB>target` to the strings `inputs` and `targets`, both scalars."""
    parts = tf.strings.split(tf.strings.regex_replace(line, "^\ufeff|\r$", ""), "\t")
    return {"inputs": parts[0], "targets": parts[1]}


def check_tsv(
    paths: Sequence[str],
    tokenize: Callable[[Example], Example],
    is_usable: Callable[[Example], tf.Tensor],
    *,
    skips_damaged: bool = False,
) -> None:
    """Reads whole TSV files once, so that a wrong line is named before training starts.

    Args:
        paths: The files.
        tokenize: From `translation_records.build_tokenization`.
        is_usable: From `translation_records.build_length_filter`.
        skips_damaged: As for `parallel_text.read_tsv`.

    Raises:
        DataError: If a file can't be read, has a line that is no pair, or has no pair at its start
            that may be used for training.
    """
    for path in paths:
        start = parallel_text.read_tsv([path], skips_damaged=skips_damaged)[:_CHUNK]
        sides = [[pair[side] for pair in start] for side in range(2)]
        examples = tf.data.Dataset.from_tensor_slices({"inputs": sides[0], "targets": sides[1]})
        translation_records.check_usable(path, examples.map(tokenize), is_usable)


def check_tfds(
    params: cfg.DataConfig,
    src_lang: str,
    tgt_lang: str,
    tokenize: Callable[[Example], Example],
    is_usable: Callable[[Example], tf.Tensor],
) -> None:
    """Checks the start of every TensorFlow Datasets entry that a config names.

    Args:
        params: Names and splits.
        src_lang: Feature with the source text.
        tgt_lang: Feature with the target text.
        tokenize: From `translation_records.build_tokenization`.
        is_usable: From `translation_records.build_length_filter`.

    Raises:
        ConfigError: If an entry is unknown or lacks one of the features.
        DataError: If an entry is not prepared, or has no pair at its start that may be used.
    """
    plain = _to_plain(params)
    for source in input_sources.get_sources(params):
        builder = tfds_source.build_builder(source, plain)
        check_tfds_features(builder, source, src_lang, tgt_lang)
        texts = tfds_source.read(builder, source, plain, seed=None).map(
            build_tfds_decoder(src_lang, tgt_lang)
        )
        translation_records.check_usable(str(source.location), texts.map(tokenize), is_usable)


def _to_plain(params: cfg.DataConfig) -> cfg.DataConfig:
    """Returns a config that reads entries in their own order."""
    return cfg.DataConfig(tfds_data_dir=params.tfds_data_dir, tfds_download=params.tfds_download)


def build_tfds_decoder(src_lang: str, tgt_lang: str) -> TextDecoder:
    """Returns the function that takes the two languages out of an example.

    Args:
        src_lang: Feature with the source text, such as `de`.
        tgt_lang: Feature with the target text.
    """

    def decode(example: Example) -> Example:
        return {"inputs": example[src_lang], "targets": example[tgt_lang]}

    return decode


def read_tfds_pairs(
    params: cfg.DataConfig, src_lang: str, tgt_lang: str, *, keep_empty: bool
) -> list[tuple[str, str]]:
    """Reads all pairs of the TensorFlow Datasets entries that a config names, one by one.

    Args:
        params: Names and splits. Only those are used, so that the order is always the same.
        src_lang: Feature with the source text.
        tgt_lang: Feature with the target text.
        keep_empty: Whether a pair with nothing on one side is kept, as evaluation needs it.

    Raises:
        ConfigError: If an entry is unknown or lacks one of the features.
        DataError: If an entry is not prepared.
    """
    plain = _to_plain(params)
    pairs: list[tuple[str, str]] = []
    for source in input_sources.get_sources(params):
        builder = tfds_source.build_builder(source, plain)
        check_tfds_features(builder, source, src_lang, tgt_lang)
        dataset = tfds_source.read(builder, source, plain, seed=None)
        texts = dataset.map(build_tfds_decoder(src_lang, tgt_lang)).batch(_CHUNK)
        for batch in iterators.create_numpy(texts):
            sides = ([text.decode("utf-8") for text in batch[key]] for key in ("inputs", "targets"))
            pairs += zip(*sides, strict=True)
    return pairs if keep_empty else [pair for pair in pairs if pair[0].strip() and pair[1].strip()]


def check_tfds_features(
    builder: Any, source: input_sources.Source, src_lang: str, tgt_lang: str
) -> None:
    """Checks that an entry has text in both languages.

    Raises:
        ConfigError: If a feature is missing, or is no text.
    """
    features = builder.info.features
    known = [name for name in features if features[name].dtype in (str, tf.string, object)]
    for field, name in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
        if name not in known:
            raise errors.ConfigError(
                f"{field}: got {name!r}, expected a text feature of {source.location!r}: "
                f"{', '.join(known) or 'it has none'}.{errors.suggest(name, known)}"
            )


def stream(
    params: cfg.DataConfig,
    dataset_fn: Callable[..., tf.data.Dataset],
    decode: TextDecoder,
    tokenizer: tokenizers.SentencePieceTokenizer | tokenizers.Sides,
    *,
    max_length: int,
    batch: Callable[[tf.data.Dataset], tf.data.Dataset],
    input_context: tf.distribute.InputContext | None,
) -> tf.data.Dataset:
    """Reads, shuffles, tokenises and batches training pairs.

    A tf.data service reads, shuffles and mixes the text; it is tokenised here, because a tokenizer
    belongs to a process.

    Args:
        params: Where the data is, and how to shuffle it.
        dataset_fn: Makes a dataset of records from a file name.
        decode: Maps a record to two strings, `inputs` and `targets`.
        tokenizer: Cuts text into tokens; or two, one for each side.
        max_length: Most tokens of a sentence; longer pairs are left out, and so are empty ones.
        batch: Maps the dataset of examples, `inputs` `[S]` and `targets` `[T]`, to one of batches.
        input_context: Which part of the data this worker reads.
    """
    is_usable = translation_records.build_length_filter(max_length)
    tokenize = translation_records.build_tokenization(tokenizer, max_length=max_length)

    def finish_served(dataset: tf.data.Dataset, context: Any) -> tf.data.Dataset:
        del context  # The sizes are those of a replica already.
        dataset = dataset.map(tokenize, num_parallel_calls=tf.data.AUTOTUNE, name="parse")
        return batch(dataset.filter(is_usable, name="filter"))

    if params.enable_tf_data_service:
        reader = input_reader.InputReader(
            params.replace(apply_tf_data_service_before_batching=True),
            dataset_fn,
            decode,
            transform_and_batch_fn=finish_served,
        )
    else:
        reader = input_reader.InputReader(
            params,
            dataset_fn,
            decode,
            parser_fn=tokenize,
            filter_fn=is_usable,
            transform_and_batch_fn=lambda dataset, _: batch(dataset),
        )
    return reader.read(input_context)
