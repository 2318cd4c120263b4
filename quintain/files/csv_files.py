"""CSV writer that neutralizes formulas, so that spreadsheets run no text of a table."""

import csv
import json
from collections.abc import Iterable
from typing import Any, Final, TextIO

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def write(file: TextIO, heading: Iterable[str], rows: Iterable[Iterable[Any]]) -> int:
    r"""Writes a table, and returns how many rows it has.

    Example:
        >>> import io
        >>> file = io.StringIO()
        >>> write(file, ["lr", "note"], [[-0.5, "=1+1"], [None, [1, 2]]])
        2
        >>> file.getvalue()
        'lr,note\n-0.5,\'=1+1\n,"[1, 2]"\n'
    """
    writer = csv.writer(_UnixLines(file), lineterminator="\r\n")
    writer.writerow(map(neutralize, heading))
    return sum(1 for row in rows if writer.writerow(map(_to_cell, row)))


class _UnixLines:
    r"""Ends lines by `\n` where the writer ends them by `\r\n`, for which it quotes a `\r`."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> int:
        return self._file.write(line.removesuffix("\r\n") + "\n")


def neutralize(text: str) -> str:
    """Returns a text with a `'` before it if spreadsheets would take it for a formula.

    Numbers that come as texts, such as `-Infinity`, stay as they are.

    Source:
        OWASP, CSV Injection (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    if not text.startswith(_FORMULA_STARTS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _to_cell(value: Any) -> Any:
    if isinstance(value, str):
        return neutralize(value)
    return json.dumps(value) if isinstance(value, bool | list | dict) else value
