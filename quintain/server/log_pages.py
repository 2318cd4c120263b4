"""Pages of logs whose lines are of some level."""

import dataclasses
from collections.abc import Callable
from typing import Final

from quintain.records.rows import log, log_levels

_PAGE_LINES: Final = 5000

ReadLogs = Callable[[log.LogFilter], list[log.LogRow]]
"""`Reader.list_logs` of one trial, or the like of an experiment."""


@dataclasses.dataclass(frozen=True)
class Page(log.LogFilter):
    """Range and level of requested log lines."""

    level: log_levels.LogLevel = log_levels.LogLevel.INFO
    """Only lines of this level, or a more serious one."""


def read(read_logs: ReadLogs, page: Page) -> list[log.LogRow]:
    """Returns a page of lines, in order."""
    if page.level is log_levels.LogLevel.INFO:
        return read_logs(page)
    # As many lines that may be meant at a time; what is before or after is known from there on.
    step = dataclasses.replace(
        page,
        limit=_PAGE_LINES,
        last=None if page.last is None else _PAGE_LINES,
        like=log_levels.list_patterns(page.level),
    )
    found: list[log.LogRow] = []
    while len(found) < page.num_wanted:
        rows = read_logs(step)
        hits = [row for row in rows if log_levels.is_meant(row.text, page.level)]
        room = page.num_wanted - len(found)
        if page.is_backward:
            found = hits[-room:] + found
        else:
            found += hits[:room]
        if len(rows) < _PAGE_LINES:
            break
        if page.is_backward:
            step = dataclasses.replace(step, before=rows[0].id)
        else:
            step = dataclasses.replace(step, after=rows[-1].id)
    return found
