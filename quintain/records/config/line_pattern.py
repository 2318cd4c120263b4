"""Regular expressions of users, matched by RE2 in time linear in the line.

Python's engine backtracks: `^(a+)+$` takes years for a line of 60 characters, and nothing can end
it. RE2 does not; what it has no words for, back-references and look-around, is refused.
"""

import functools
from collections.abc import Callable
from typing import Final

import re2

from quintain import errors

MOST_INSTRUCTIONS: Final = 2000
"""Size of a compiled pattern at most: the time for a line is at most proportional to it."""

_MAX_BYTES: Final = 2**20


class LinePattern:
    """A regular expression that is searched for in lines.

    Raises:
        ConfigError: If RE2 does not know it, or it is too large.

    Example:
        >>> LinePattern("out of .em").is_in("GPU out of memory!")
        True
        >>> LinePattern("(?<!no )error")
        Traceback (most recent call last):
        ...
        quintain.errors.ConfigError: got '(?<!no )error': invalid perl operator: (?<!. Patterns \
are those of RE2: write it without look-around and back-references.
    """

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_BYTES
        options.never_capture = True
        try:
            compiled = re2.compile(text, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise errors.ConfigError(
                f"got {errors.show(text)}: {_explain(error)}. Patterns are those of RE2: write it "
                "without look-around and back-references."
            ) from error
        if compiled.programsize > MOST_INSTRUCTIONS:
            raise errors.ConfigError(
                f"got {errors.show(text)}: it has {compiled.programsize:,} instructions when "
                f"compiled, expected at most {MOST_INSTRUCTIONS:,}. Write shorter repetitions, "
                "such as .* for .{0,1000}."
            )
        self._search: Callable[[bytes], object] = compiled.search

    def is_in(self, line: str) -> bool:
        """Returns whether a part of a line matches."""
        return self._search(line.encode(errors="replace")) is not None


get = functools.lru_cache(LinePattern)
"""Returns the pattern of a text; those used last are kept."""


def _explain(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode(errors="replace") if isinstance(first, bytes) else str(error)
