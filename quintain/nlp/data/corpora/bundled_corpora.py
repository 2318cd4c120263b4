"""The corpora that come with the package, by name."""

import difflib
import functools
from collections.abc import Callable, Mapping
from typing import Final

from quintain import errors
from quintain.nlp.data.corpora import numbers_and_dates

PREFIX: Final = "bundled:"
"""Start of an `input_path` that names a bundled corpus."""

_SPLITS: Final[Mapping[str, Callable[[], list[tuple[str, str]]]]] = {
    "train": numbers_and_dates.train_pairs,
    "validation": numbers_and_dates.validation_pairs,
    "test": numbers_and_dates.test_pairs,
}


def _reverse(get_pairs: Callable[[], list[tuple[str, str]]]) -> list[tuple[str, str]]:
    return [(target, source) for source, target in get_pairs()]


_CORPORA: Final[Mapping[str, Callable[[], list[tuple[str, str]]]]] = {
    **{f"numbers_and_dates/{split}": get_pairs for split, get_pairs in _SPLITS.items()},
    **{
        f"numbers_and_dates_reversed/{split}": functools.partial(_reverse, get_pairs)
        for split, get_pairs in _SPLITS.items()
    },
}


def get_names() -> list[str]:
    """Returns the names of all bundled corpora, each "corpus/split"."""
    return sorted(_CORPORA)


def get_pairs(name: str) -> list[tuple[str, str]]:
    """Returns the sentence pairs of a bundled corpus.

    Args:
        name: "corpus/split", without the prefix.

    Raises:
        ConfigError: If there is no such corpus.

    Example:
        >>> len(get_pairs("numbers_and_dates/test"))
        1000
    """
    if name in _CORPORA:
        return _CORPORA[name]()
    near = difflib.get_close_matches(name, _CORPORA, n=1, cutoff=0.5)
    hint = f" Did you mean {PREFIX + near[0]!r}?" if near else ""
    known = ", ".join(repr(PREFIX + known) for known in get_names())
    raise errors.ConfigError(f"input_path: got {PREFIX + name!r}, expected one of {known}.{hint}")
