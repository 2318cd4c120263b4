"""Training pairs drawn by weight from several sources, each of whatever kind.

Every source repeats for itself in an order of its own, and each pair is drawn from one of them at
random. All of it follows the seed; the position (in every source, in the draws, in half-full
batches) can be saved and restored exactly.
"""

import dataclasses
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.config import base_config
from quintain.nlp.data.pairs import pair_formats

Example = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Part:
    """One source of a mixture."""

    field: str
    """What errors call it, such as `mixture.news` or `mixture[0]`."""

    params: Any
    """The data config of this source alone."""

    weight: float
    """Its share of the pairs, relative to the other sources."""


def get_parts(params: Any) -> list[Part]:
    """Returns the sources that `mixture` of a `WMTDataConfig` lists.

    What an entry does not set is as in the config.

    Raises:
        ConfigError: If an entry is no mapping, has no data, an unknown field, or a wrong weight.
    """
    mixture = _to_plain(params.mixture)
    if isinstance(mixture, Mapping):
        entries = [(f"mixture.{name}", entry) for name, entry in mixture.items()]
    elif isinstance(mixture, (list, tuple)):
        entries = [(f"mixture[{index}]", entry) for index, entry in enumerate(mixture)]
    else:
        raise errors.ConfigError(
            f"mixture: got {mixture!r}, expected a list of sources, or a mapping of names to them, "
            "such as {news: {input_path: news.tsv, weight: 2}, talks: {tfds_name: ...}}."
        )
    return [
        _build_part(params, field, entry, index) for index, (field, entry) in enumerate(entries)
    ]


def _build_part(params: Any, field: str, entry: Any, index: int) -> Part:
    entry = _to_plain(entry)
    if not isinstance(entry, Mapping):
        raise errors.ConfigError(
            f"{field}: got {entry!r}, expected a mapping, such as "
            f"{{input_path: {entry!r}, weight: 1}}."
        )
    fields = dict(entry)
    weight = fields.pop("weight", 1)
    is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
    if not is_number or not 0 < weight < float("inf"):
        raise errors.ConfigError(
            f"{field}.weight: got {weight!r}, expected a number greater than 0."
        )
    if fields.get("mixture"):
        raise errors.ConfigError(f"{field}.mixture: a mixture can't be part of a mixture.")
    # Sources with the same files must not be shuffled alike.
    seed = None if params.seed is None else params.seed + index
    try:
        part = params.replace(mixture=None, seed=seed).replace(**fields)
        pair_formats.check_one_source(part)
    except errors.ConfigError as error:
        raise errors.ConfigError(f"{field}.{error}") from error
    return Part(field, part, float(weight))


def _to_plain(value: Any) -> Any:
    return value.as_dict() if isinstance(value, base_config.Config) else value


def draw(
    parts: list[Part], build: Callable[[Part], tf.data.Dataset], *, seed: int
) -> tf.data.Dataset:
    """Returns an endless dataset of examples drawn from sources by their weights.

    `build` returns the endless examples of a source, `inputs` `[S]` and `targets` `[T]`.
    """
    total = sum(part.weight for part in parts)
    return tf.data.Dataset.sample_from_datasets(
        [build(part) for part in parts], weights=[part.weight / total for part in parts], seed=seed
    )
