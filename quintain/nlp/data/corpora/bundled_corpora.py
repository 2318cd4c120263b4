"""The corpora that come with the package, by name.

`numbers_and_dates` is English and German: numbers, dates, times, prices and measures. Real
language, free of licences, nothing to download. A small Transformer learns it in minutes, and a
wrong digit is plain to see, which makes it the first thing to try and a good end-to-end check.
`names_and_places` and `questions` are made sentences, to find names and to answer questions, with a
vocabulary. `scripts/make_bundled_corpus.py` makes all files.
"""

import gzip
import itertools
import pathlib
from typing import Any, Final

from quintain import errors

PREFIX: Final = "bundled:"
"""Start of an `input_path` that names a bundled corpus."""

_DIRECTORY: Final = pathlib.Path(__file__).parent
_CORPORA: Final = ("numbers_and_dates", "numbers_and_dates_reversed")
_SPLITS: Final = ("train", "validation", "test")


def get_names() -> list[str]:
    """Returns the names of all bundled corpora, each "corpus/split"."""
    return sorted(map("/".join, itertools.product(_CORPORA, _SPLITS)))


def get_pairs(name: str) -> list[tuple[str, str]]:
    """Returns the sentence pairs of a bundled corpus, named "corpus/split" without the prefix.

    Raises:
        ConfigError: If there is no such corpus.

    Example:
        >>> get_pairs("numbers_and_dates/validation")[0]
        ('the nine hundred and twenty-eighth floor', 'der neunhundertachtundzwanzigste Stock')
    """
    lines = gzip.decompress(_find_file(name).read_bytes()).decode().splitlines()
    pairs = [(source, target) for source, _, target in (line.partition("\t") for line in lines)]
    return [(target, source) for source, target in pairs] if "_reversed/" in name else pairs


def find_name(input_path: Any) -> str:
    """Returns the name of the bundled corpus that `input_path` names, or an empty string."""
    if isinstance(input_path, (list, tuple)) and len(input_path) == 1:
        input_path = input_path[0]
    is_bundled = isinstance(input_path, str) and input_path.startswith(PREFIX)
    return input_path.removeprefix(PREFIX) if is_bundled else ""


def find_file(input_path: Any) -> Any:
    """Returns the file of the bundled corpus that a path names; any other path as it is.

    "bundled:corpus/split" names the pairs of a corpus, "bundled:corpus/file" a file of one.

    Raises:
        ConfigError: If there is no such corpus.
    """
    name = find_name(input_path)
    return str(_find_file(name)) if name else input_path


def _find_file(name: str) -> pathlib.Path:
    file = (_DIRECTORY / name).resolve()
    if file.is_file() and file.is_relative_to(_DIRECTORY):
        return file
    if name not in get_names():
        known = [PREFIX + known for known in get_names()]
        raise errors.ConfigError(
            f"input_path: got {PREFIX + name!r}, expected one of {', '.join(map(repr, known))}."
            f"{errors.suggest(PREFIX + name, known)}"
        )
    return _DIRECTORY / f"{name.replace('_reversed/', '/')}.tsv.gz"
