"""Severity levels of log lines, found by their words."""

import enum
import re
from typing import Final


class LogLevel(enum.StrEnum):
    """Severity of a line, the most serious first."""

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


_LIKE_ERROR: Final = ("error", "exception", "traceback", "critical", "fatal")
_ALL_LIKE_ERROR: Final = (*(f"%{word}%" for word in _LIKE_ERROR), "E____ %", "F____ %")
_LIKE: Final[dict[LogLevel, tuple[str, ...]]] = {
    LogLevel.ERROR: _ALL_LIKE_ERROR,
    LogLevel.WARNING: (*_ALL_LIKE_ERROR, "%warn%", "W____ %"),
    LogLevel.INFO: (),
}


def list_patterns(level: LogLevel) -> tuple[str, ...]:
    """Returns patterns of SQL, one of which each line of a level or a more serious one is like.

    Others are, too: they are for a database to leave most lines out.
    """
    return _LIKE[level]


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
