"""Pages of logs whose lines are of some level."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from quintain.records import log, log_levels

_PAGE_LINES: Final = 5000

ReadLogs = Callable[..., list[log.LogRow]]
"""`Reader.list_logs` of one trial, or the like of an experiment."""


@dataclasses.dataclass(frozen=True)
class Page:
    """Which lines are wanted."""

    after: int = 0
    """Number of a line; only later ones."""

    before: int | None = None
    """Number of a line; only earlier ones, the newest of them."""

    limit: int = 1000
    """Most lines."""

    last: int | None = None
    """Only so many of the newest."""

    source: log.LogSource | None = None
    """Only lines from there."""

    contains: str | None = None
    """Only lines with this text."""

    level: log_levels.LogLevel = log_levels.LogLevel.INFO
    """Only lines of this level, or a more serious one."""


def read(read_logs: ReadLogs, page: Page) -> list[log.LogRow]:
    """Returns a page of lines, in order."""
    if page.level is log_levels.LogLevel.INFO:
        return read_logs(**{name: value for name, value in vars(page).items() if name != "level"})
    is_backward = page.last is not None or page.before is not None
    wanted = page.limit if page.last is None else min(page.limit, page.last)
    after, before = page.after, page.before
    found: list[log.LogRow] = []
    while len(found) < wanted:
        step: dict[str, Any] = {"last": _PAGE_LINES} if is_backward and before is None else {}
        rows = read_logs(
            after=after,
            before=before,
            limit=_PAGE_LINES,
            source=page.source,
            contains=page.contains,
            **step,
        )
        hits = [row for row in rows if log_levels.is_meant(row.text, page.level)]
        room = wanted - len(found)
        if is_backward:
            found = hits[-room:] + found
        else:
            found += hits[:room]
        if len(rows) < _PAGE_LINES:
            break
        after, before = (after, rows[0].id) if is_backward else (rows[-1].id, before)
    return found
