"""Formats of translation data: aligned files, TSV or TFDS, streamed or held in memory."""

from collections.abc import Mapping
from typing import Any, Literal

from quintain import errors
from quintain.config import base_config
from quintain.input import input_reader, input_sources
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.pairs import translation_records

FileFormat = Literal["auto", "tsv", "text", "tfrecord"]

StreamFormat = Literal["tfds", "tfrecord", "tsv"]

_MAIN_FIELDS = ("input_path", "tfds_name", "hf_name", "mixture")


def check_one_source(params: Any) -> None:
    """Checks that a config names its data in one way.

    Raises:
        ConfigError: If it names none, or does so in several ways.
    """
    given = [field for field in _MAIN_FIELDS if getattr(params, field)]
    if not given:
        raise errors.ConfigError(
            "input_path: got '', expected TSV, text or TFRecord files, or "
            f"{bundled_corpora.PREFIX + bundled_corpora.get_names()[-1]!r}; or a TensorFlow "
            "Datasets entry in tfds_name, a Hugging Face dataset in hf_name, or several of these "
            "in mixture."
        )
    if len(given) > 1:
        raise errors.ConfigError(
            f"{given[1]}: got {getattr(params, given[1])!r}, and {given[0]} "
            f"{getattr(params, given[0])!r}; expected one of them. To read several, list them in "
            "mixture."
        )


def is_mapping(value: Any) -> bool:
    """True if a value of a config is a mapping."""
    return isinstance(value, (Mapping, base_config.Config))


def split_sources(params: Any) -> list[Any]:
    """Returns the config of every source of a mapping in `input_path`."""
    sources = input_sources.get_sources(params)
    return [params.replace(input_path=source.location) for source in sources]


def find_bundled(params: Any) -> str:
    """Returns the name of the bundled corpus that `input_path` names, or an empty string."""
    return bundled_corpora.find_name(params.input_path)


def find_format(params: Any) -> FileFormat:
    """Returns the format of the files in `input_path`.

    Raises:
        ConfigError: If the config contradicts itself, or does not tell.
    """
    has_target = bool(params.target_path)
    if params.file_format == "text" and not has_target:
        raise errors.ConfigError(
            "target_path: got '', but file_format='text' needs the files that translate "
            f"{params.input_path!r} line by line."
        )
    if params.file_format not in ("auto", "text") and has_target:
        raise errors.ConfigError(
            f"target_path: got {params.target_path!r}, but file_format={params.file_format!r} has "
            "both sides in one file. Leave target_path empty, or use file_format='text'."
        )
    if has_target:
        return "text"
    if params.file_format != "auto":
        file_format: FileFormat = params.file_format
        return file_format
    return _guess_format(params)


def _guess_format(params: Any) -> FileFormat:
    paths = input_reader.split_paths(params.input_path)
    if all(path.endswith((".tsv", ".tsv.gz")) for path in paths):
        return "tsv"
    is_named_record = all(".tfrecord" in path or ".tf_record" in path for path in paths)
    if is_named_record or (params.src_lang and params.tgt_lang):
        return "tfrecord"
    raise errors.ConfigError(
        f"input_path: cannot tell what {params.input_path!r} holds. Set file_format to 'tsv' or "
        "'tfrecord', or give the translated text files in target_path."
    )


def find_stream_format(params: Any) -> StreamFormat | None:
    """Returns what training streams; None if it holds the pairs in memory.

    Raises:
        ConfigError: If the config contradicts itself, or asks for what needs a stream.
    """
    if params.tfds_name:
        return "tfds"
    is_served = params.enable_tf_data_service
    if params.hf_name:
        formats = {"Hugging Face"}
        parts = [params]
    else:
        parts = split_sources(params) if is_mapping(params.input_path) else [params]
        formats = {"bundled" if find_bundled(part) else find_format(part) for part in parts}
    if formats == {"tfrecord"} or (formats == {"tsv"} and (is_served or len(parts) > 1)):
        return "tfrecord" if formats == {"tfrecord"} else "tsv"
    if len(parts) > 1 or is_served:
        raise errors.ConfigError(
            f"input_path: got {' and '.join(sorted(formats))} data, expected all sources to be "
            "TFRecord files or all TSV files in a mapping of input_path and with "
            "enable_tf_data_service. Write the pairs to TSV files, `source<TAB>target` lines, or "
            "list the sources in mixture."
        )
    return None


def get_record_format(params: Any) -> translation_records.RecordFormat:
    """Returns the names of the features of TFRecord files and TensorFlow Datasets entries.

    Raises:
        ConfigError: If the config does not tell one.
    """
    for name, content in (("src_lang", "source"), ("tgt_lang", "target")):
        if not getattr(params, name):
            raise errors.ConfigError(
                f"{name}: got '', expected the name of the feature that holds the {content} text "
                "in the TFRecord files, the TensorFlow Datasets entry or the Hugging Face dataset."
            )
    return translation_records.RecordFormat(
        source=params.src_lang, target=params.tgt_lang, has_unique_id=params.has_unique_id
    )
