"""Reads TensorFlow Datasets entries that are prepared on disk.

The package `tensorflow-datasets` is needed only here: `pip install "quintain[tfds]"`.
"""

import importlib
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.input import input_sources
from quintain.settings import config_definitions as cfg

_INSTALL = 'Install it with `pip install "quintain[tfds]"`.'


def build_builder(source: input_sources.Source, params: cfg.DataConfig) -> Any:
    """Returns the `tfds.core.DatasetBuilder` of a source, with its data in place.

    Raises:
        ConfigError: If `tensorflow-datasets` is not installed, or the name or the split is wrong.
        DataError: If the data is not prepared, and may not be or can't be downloaded.
    """
    tfds = _import_tfds(source)
    name = str(source.location)
    package, dot, rest = name.partition(".")
    if dot and "/" not in package and ":" not in package:
        raise errors.ConfigError(
            f"{source.field}: got {name!r}; the prefix {package + dot!r} names a catalogue that is "
            f"not public. Give the entry's public name, such as {rest!r}."
        )
    try:
        builder = tfds.builder(name, data_dir=params.tfds_data_dir or None)
    except tfds.core.DatasetNotFoundError as error:
        hint = errors.suggest(name.partition("/")[0].partition(":")[0], tfds.list_builders())
        raise errors.ConfigError(
            f"{source.field}: got {name!r}, which is neither in the catalogue nor prepared in "
            f"{params.tfds_data_dir or '~/tensorflow_datasets'!r}.{hint}"
        ) from error
    except (ValueError, AssertionError) as error:
        raise errors.ConfigError(f"{source.field}: got {name!r}: {_first_line(error)}") from error
    _check_prepared(builder, source, params)
    _get_split(builder, source)
    return builder


def _import_tfds(source: input_sources.Source) -> Any:
    try:
        return importlib.import_module("tensorflow_datasets")
    except ImportError as error:
        raise errors.ConfigError(
            f"{source.field}: got {source.location!r}, but the package tensorflow-datasets can't "
            f"be imported ({error}). {_INSTALL}"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _check_prepared(builder: Any, source: input_sources.Source, params: cfg.DataConfig) -> None:
    if builder.is_prepared():
        return
    if not params.tfds_download:
        raise errors.DataError(
            f"{source.field}: {source.location!r} is not prepared in {str(builder.data_dir)!r}. "
            "Prepare it once with "
            f"`tfds build {source.location} "
            f"--data_dir={params.tfds_data_dir or '~/tensorflow_datasets'}`, set tfds_data_dir to "
            "where it is, or set tfds_download=true to have it downloaded now."
        )
    try:
        builder.download_and_prepare()
    except Exception as error:
        raise errors.DataError(
            f"{source.field}: {source.location!r} can't be downloaded "
            f"({type(error).__name__}: {_first_line(error)}). Check the network, or prepare it "
            "elsewhere and set tfds_data_dir."
        ) from error


def _get_split(builder: Any, source: input_sources.Source) -> Any:
    try:
        return builder.info.splits[source.split]
    except (ValueError, KeyError, AssertionError) as error:
        known = sorted(builder.info.splits)
        hint = errors.suggest(source.split, known)
        raise errors.ConfigError(
            f"tfds_split: got {source.split!r}, expected one of {', '.join(known)} of "
            f"{source.location!r}, or a part, such as '{known[0]}[:80%]'.{hint}"
        ) from error


def read(
    builder: Any,
    source: input_sources.Source,
    params: cfg.DataConfig,
    *,
    seed: int | None,
    num_pipelines: int = 1,
    pipeline: int = 0,
) -> tf.data.Dataset:
    """Returns one worker's decoded examples.

    Training reads the files in a new order every epoch and, without `cache`, never ends. Workers
    share out whole files if there are enough; otherwise each reads all and keeps every n-th
    example. Evaluation keeps the order of the split and always shares out by example.

    Args:
        builder: From `build_builder`.
        source: The entry and its split.
        params: How to read it.
        seed: Seed of the order of files. None orders them differently each time.
        num_pipelines: Workers that share the data.
        pipeline: Which of them this is.

    Raises:
        ConfigError: If `tfds_as_supervised` is set for an entry without labels, or a feature to
            skip does not exist.
        DataError: If there is no example.
    """
    tfds = _import_tfds(source)
    is_training = bool(params.is_training)
    split = _get_split(builder, source)
    if split.num_examples == 0:
        raise errors.DataError(
            f"tfds_split: got {source.split!r}, which holds no example of {source.location!r}."
        )
    num_files = len(split.file_instructions)
    shares_files = is_training and num_pipelines > 1 and num_files >= num_pipelines
    repeats = is_training and not params.cache
    options: dict[str, Any] = {
        "shuffle_seed": seed,
        "repeat_filenames": repeats,
        "assert_cardinality": not repeats,
        "try_autocache": False,
        "skip_prefetch": True,
        "interleave_cycle_length": params.cycle_length if is_training else params.cycle_length or 1,
        "interleave_block_length": params.block_length,
    }
    if shares_files:
        options["input_context"] = tf.distribute.InputContext(num_pipelines, pipeline)
    _check_features(builder, source, params)
    dataset = builder.as_dataset(
        split=source.split,
        shuffle_files=is_training,
        as_supervised=params.tfds_as_supervised,
        decoders={name: tfds.decode.SkipDecoding() for name in _split_names(params)} or None,
        read_config=tfds.ReadConfig(**options),
    )
    if num_pipelines == 1 or shares_files:
        return dataset
    return dataset.shard(num_pipelines, pipeline, name="files")


def _split_names(params: cfg.DataConfig) -> list[str]:
    names = params.tfds_skip_decoding_feature.split(",")
    return [name.strip() for name in names if name.strip()]


def _check_features(builder: Any, source: input_sources.Source, params: cfg.DataConfig) -> None:
    features = list(builder.info.features or ())
    for name in _split_names(params):
        if name not in features:
            raise errors.ConfigError(
                f"tfds_skip_decoding_feature: got {name!r}, expected features of "
                f"{source.location!r}: {', '.join(features)}.{errors.suggest(name, features)}"
            )
    if params.tfds_as_supervised and builder.info.supervised_keys is None:
        raise errors.ConfigError(
            f"tfds_as_supervised: got True, but {source.location!r} does not say which of its "
            f"features is the label. Leave it False and take them by name: {', '.join(features)}."
        )
