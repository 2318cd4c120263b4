"""Named sources of data and the weights by which they are mixed.

`input_path` and `tfds_name` name one source, or, as a mapping, several:

    input_path: {wiki: wiki-*.tfrecord, books: books-*.tfrecord}

leaves it to a `combine_fn` what to make of them, and

    input_path:
      wiki: {path: wiki-*.tfrecord, weight: 2}
      books: {path: books-*.tfrecord, weight: 1}

draws two of three training examples from `wiki`.
"""

import dataclasses
import functools
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.config import base_config
from quintain.settings import config_definitions as cfg

UNNAMED: Final = ""
"""Name of the source where there is only one, without a name."""


@dataclasses.dataclass(frozen=True)
class Source:
    """One source of examples."""

    name: str
    """Its name in the mapping; empty if it is the only one."""

    location: str | Sequence[str]
    """Paths and patterns of files, or the name of a TensorFlow Datasets entry."""

    weight: float | None = None
    """Its share of training examples, relative to the other sources. None if not given."""

    split: str = ""
    """Split of a TensorFlow Datasets entry, where it has one of its own."""

    is_catalogued: bool = False
    """Whether it is a TensorFlow Datasets entry."""

    @property
    def field(self) -> str:
        """The config field that names it, for error messages."""
        field = "tfds_name" if self.is_catalogued else "input_path"
        return f"{field}.{self.name}" if self.name else field


def get_sources(params: cfg.DataConfig) -> list[Source]:
    """Returns the sources that a config names, in its order.

    Raises:
        ConfigError: If it names none, or both files and TensorFlow Datasets entries, or describes
            one wrongly.
    """
    if params.input_path and params.tfds_name:
        raise errors.ConfigError(
            f"input_path: got {params.input_path!r}, and tfds_name {params.tfds_name!r}; expected "
            "one of the two. Leave the other empty."
        )
    is_catalogued = bool(params.tfds_name)
    field = "tfds_name" if is_catalogued else "input_path"
    value = _to_plain(getattr(params, field))
    if not value:
        raise errors.ConfigError(
            f"input_path: got {value!r}, expected a file, a pattern, a list of them, or a mapping "
            "of names to them; or a TensorFlow Datasets entry in tfds_name."
        )
    if not isinstance(value, Mapping):
        sources = [Source(UNNAMED, value, is_catalogued=is_catalogued)]
    else:
        sources = [_build_source(field, name, entry) for name, entry in value.items()]
    if not is_catalogued:
        return sources
    return [_with_split(source, params.tfds_split) for source in sources]


def _to_plain(value: Any) -> Any:
    return value.as_dict() if isinstance(value, base_config.Config) else value


def _build_source(field: str, name: str, entry: Any) -> Source:
    is_catalogued = field == "tfds_name"
    entry = _to_plain(entry)
    if not isinstance(entry, Mapping):
        return Source(name, entry, is_catalogued=is_catalogued)
    key = "name" if is_catalogued else "path"
    known = (key, "weight", "split") if is_catalogued else (key, "weight")
    for given in entry:
        if given not in known:
            raise errors.UnknownKeyError(
                f"{field}.{name}: got the unknown key {given!r}, expected {', '.join(known)}."
                f"{errors.suggest(str(given), known)}"
            )
    if not entry.get(key):
        raise errors.ConfigError(
            f"{field}.{name}.{key}: missing. Write it as {{{key}: ..., weight: 1}}."
        )
    weight = entry.get("weight", 1)
    is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
    if not is_number or not 0 < weight < float("inf"):
        raise errors.ConfigError(
            f"{field}.{name}.weight: got {weight!r}, expected a number greater than 0."
        )
    split = entry.get("split", "")
    return Source(name, entry[key], float(weight), split=split, is_catalogued=is_catalogued)


def _with_split(source: Source, split: str) -> Source:
    if not isinstance(source.location, str):
        raise errors.ConfigError(
            f"{source.field}: got {source.location!r}, expected the name of one TensorFlow "
            "Datasets entry. To read several, give a mapping of names to them."
        )
    if not (source.split or split):
        raise errors.ConfigError(
            f"tfds_split: got '', but tfds_name is {source.location!r}. Give the split to read, "
            "such as 'train' or 'train[:80%]'."
        )
    return dataclasses.replace(source, split=source.split or split)


def is_mixture(sources: Sequence[Source]) -> bool:
    """True if the sources are to be mixed by weight."""
    return any(source.weight is not None for source in sources)


def check_combination(sources: Sequence[Source], *, has_combine_fn: bool) -> None:
    """Checks that it is known what becomes of several sources.

    Raises:
        ConfigError: If there are named sources without weights or a `combine_fn`, or with both, or
            a `combine_fn` and only one source without a name.
    """
    is_named = sources[0].name != UNNAMED
    field = sources[0].field.partition(".")[0]
    if has_combine_fn and is_mixture(sources):
        raise errors.ConfigError(
            f"{field}: got weights and a combine_fn, which would not see them. Leave out one."
        )
    if has_combine_fn != is_named and not is_mixture(sources):
        names = ", ".join(repr(source.name) for source in sources) if is_named else "one source"
        raise errors.ConfigError(
            f"{field}: got {names}, {'with' if has_combine_fn else 'without'} a combine_fn. A "
            "mapping of sources needs a combine_fn, and only a mapping does; or give each source "
            "a weight, as in {wiki: {path: wiki-*.tfrecord, weight: 2}}."
        )


def mix(
    datasets: Sequence[tf.data.Dataset],
    weights: Sequence[float],
    *,
    seed: int | None,
    is_training: bool,
) -> tf.data.Dataset:
    """Makes one dataset of several.

    Args:
        datasets: Datasets of the same structure, endless ones in training.
        weights: Relative share of each.
        seed: Seed of the draws. None draws afresh each time.
        is_training: Whether to draw by weight. Evaluation reads one source after the other, every
            example once.
    """
    if not is_training:
        return functools.reduce(tf.data.Dataset.concatenate, datasets)
    total = sum(weights)
    return tf.data.Dataset.sample_from_datasets(
        list(datasets), weights=[weight / total for weight in weights], seed=seed
    )
