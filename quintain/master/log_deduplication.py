"""Deduplication of log lines that a killed master had stored already.

They do after a master was killed that had stored them and could not say so any more.
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Final

from quintain.records.rows import log
from quintain.store import store as store_lib

_PAGE_LINES: Final = 1000

_Key = tuple[float, log.LogSource, str]


@dataclasses.dataclass
class _Stored:
    """Lines of a trial that are stored, and may come again."""

    since: float
    """Time from which on they are here."""

    counts: collections.Counter[_Key]
    """How many there are of each."""


class LogDeduplication:
    """Recognises the lines of processes that a restarted master has taken over.

    Lines are the same if time, source and text are: no two of a process have the same time, and the
    processes of a trial hardly ever write the same at once.
    """

    def __init__(self, store: store_lib.Store) -> None:
        self._store = store
        self._stored: dict[int, _Stored | None] = {}

    def expect(self, trial_id: int) -> None:
        """Notes that a process of a trial was taken over, whose lines may be stored already."""
        self._stored[trial_id] = None

    def drop(self, lines: Sequence[log.LogRow]) -> list[log.LogRow]:
        """Returns the lines that are not stored yet, in the same order."""
        if not self._stored:
            return list(lines)
        first: dict[int, float] = {}
        for line in lines:
            if line.trial_id in self._stored:
                first[line.trial_id] = min(line.time, first.get(line.trial_id, line.time))
        for trial_id, since in first.items():
            self._load(trial_id, since)
        return [line for line in lines if not self._take(line)]

    def _take(self, line: log.LogRow) -> bool:
        """Returns whether a line is stored, and counts it."""
        stored = self._stored.get(line.trial_id)
        key = (line.time, line.source, line.text)
        if stored is None or not stored.counts[key]:
            return False
        stored.counts[key] -= 1
        return True

    def _load(self, trial_id: int, since: float) -> None:
        """Reads what was stored of a trial since some time, unless it was read before."""
        stored = self._stored[trial_id]
        if stored is not None and stored.since <= since:
            return
        until = float("inf") if stored is None else stored.since
        counts: collections.Counter[_Key] = collections.Counter()
        before: int | None = None
        while True:
            which = log.LogFilter(before=before, last=_PAGE_LINES)
            with self._store.reading() as session:
                page = session.list_logs(trial_id, which)
            own = [row for row in page if row.source is not log.LogSource.MASTER]
            counts.update(
                (row.time, row.source, row.text) for row in own if since <= row.time < until
            )
            if len(page) < _PAGE_LINES or (own and own[0].time < since):
                break
            before = page[0].id
        if stored is not None:
            counts.update(stored.counts)
        self._stored[trial_id] = _Stored(since, counts)
