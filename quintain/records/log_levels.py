"""How serious a line of a log is, as its words tell."""

import enum
import re
from typing import Final


class LogLevel(enum.StrEnum):
    """Lines of at least this level are meant."""

    ERROR = "error"
    """Errors, exceptions, and what Python shows of them."""

    WARNING = "warning"
    """Warnings, too."""

    INFO = "info"
    """All lines."""


_ERROR: Final = re.compile(
    # `mean_absolute_error=0.3` is none; `ValueError: ...` and `E0102 03:04:05` are.
    r"(?i:\b(?:error|exception|traceback|critical|fatal)\b)"
    r"|\b[A-Z]\w*(?:Error|Exception)\b|^[EF][0-9]{4} "
)
_WARNING: Final = re.compile(r"(?i:\bwarn(?:ing)?\b)|\b[A-Z]\w*Warning\b|^W[0-9]{4} ")


def find(text: str) -> LogLevel:
    """Returns the level of a line.

    Example:
        >>> [find(text).value for text in ("ValueError: no", "UserWarning: old", "error_rate: 1")]
        ['error', 'warning', 'info']
    """
    if _ERROR.search(text):
        return LogLevel.ERROR
    return LogLevel.WARNING if _WARNING.search(text) else LogLevel.INFO


def is_meant(text: str, level: LogLevel) -> bool:
    """Returns whether a line is of a level or a more serious one."""
    levels = list(LogLevel)
    return levels.index(find(text)) <= levels.index(level)
