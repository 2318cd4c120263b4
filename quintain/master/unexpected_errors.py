"""Descriptions of unexpected exceptions in the handling of one experiment."""

import contextlib
import pathlib
import re
import traceback
from collections.abc import Iterator
from typing import Final

import quintain
from quintain import errors

_NUMBER: Final = re.compile(
    r"\b0x[0-9a-fA-F]+\b|(?<!line )(?<!\.py:)(?<![\w.])-?\d+(\.\d+)?(e[+-]?\d+)?\b"
)
_ROOT: Final = pathlib.Path(quintain.__file__).parents[1]


def describe(error: BaseException) -> str:
    """Returns class, message and innermost line of our own code."""
    text = f"{type(error).__name__}: {error}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = pathlib.Path(frame.filename)
        if path.is_relative_to(_ROOT / "quintain"):
            return f"{text} ({path.relative_to(_ROOT).as_posix()}:{frame.lineno})"
    return text


def find_signature(message: str) -> str:
    """Returns what two errors have in common that are the same but for numbers and addresses.

    Numbers of lines stay: elsewhere is another error.

    Example:
        >>> find_signature("model_def.py:12: ValueError: got shape (32, 7) at 0x7f12")
        'model_def.py:12: ValueError: got shape (#, #) at #'
        >>> find_signature('File "a.py", line 3, in build: 0.25 is too much')
        'File "a.py", line 3, in build: # is too much'
    """
    return _NUMBER.sub("#", message)


@contextlib.contextmanager
def search_errors_explained() -> Iterator[None]:
    """Makes a mistake in the config of what a search raises before its experiment is created.

    Raises:
        ConfigError: If the block raises what is no error of ours.
    """
    try:
        yield
    except errors.QuintainError:
        raise
    except Exception as error:
        raise errors.ConfigError(
            f"hyperparameters, searcher: the search can't begin with them: {describe(error)}."
        ) from error
