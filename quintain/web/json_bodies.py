"""Reads JSON that strangers sent: nothing in it may surprise what comes after."""

import json
import math
from typing import Any, Final, NoReturn

from quintain import errors

MAX_DEPTH: Final = 64
"""Most lists and objects in each other."""

_LARGE_INTEGER: Final = "body: got an integer that is too large for 64 bits."


def parse(data: bytes | bytearray) -> Any:
    """Returns what JSON says.

    Numbers are finite and have at most 64 bits, texts can be stored and printed, and the depth is
    limited, so that what walks through it recursively does not run out of stack.

    Args:
        data: JSON as UTF-8.

    Raises:
        DataError: Saying what is wrong.

    Example:
        >>> parse(b'{"a": [1, NaN]}')
        Traceback (most recent call last):
        ...
        quintain.errors.DataError: body: got NaN, but JSON has finite numbers only.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise errors.DataError(f"body: is not UTF-8 at byte {error.start}.") from error
    except RecursionError as error:
        raise errors.DataError(f"body: is nested deeper than {MAX_DEPTH} levels.") from error
    except errors.DataError:
        raise
    except json.JSONDecodeError as error:
        raise errors.DataError(f"body: is no JSON: {error}.") from error
    except ValueError as error:  # Python reads no integers of more than 4,300 digits.
        raise errors.DataError(_LARGE_INTEGER) from error
    _check(value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise errors.DataError(f"body: got {name}, but JSON has finite numbers only.")


def _check(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise errors.DataError(f"body: is nested deeper than {MAX_DEPTH} levels.")
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one)
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
            elif isinstance(one, str):
                _check_text(one)
            elif isinstance(one, float) and not math.isfinite(one):
                raise errors.DataError("body: got a number that is too large for 64 bits.")
            elif isinstance(one, int) and not -(2**63) <= one < 2**63:
                raise errors.DataError(_LARGE_INTEGER)
        level = inner


def _check_text(text: str) -> None:
    # JSON can write halves of a character, which nothing else can.
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise errors.DataError(f"body: {text[:80]!a} is not valid Unicode.")
