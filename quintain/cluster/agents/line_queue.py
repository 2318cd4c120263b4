"""Lines of logs that agents have sent, until they are stored."""

import collections
import dataclasses
import threading
from typing import Final

from quintain import errors
from quintain.cluster.agents import members
from quintain.records.rows import log

_MOST_WAITING_LINES: Final = 200_000
"""While more lines wait to be stored, agents keep theirs."""


@dataclasses.dataclass(frozen=True)
class _Batch:
    """Lines of one report."""

    member: members.Member
    session: str
    number: int
    rows: list[log.LogRow]


class LineQueue:
    """Lines that wait to be stored. `read` is called by one thread only."""

    def __init__(self) -> None:
        self._waiting: collections.deque[_Batch] = collections.deque()
        self._unconfirmed: list[_Batch] = []
        self._lock = threading.Lock()
        self._num_waiting = 0

    def check_room(self) -> None:
        """Raises `StoreError` if too many lines wait; the report is to be sent again."""
        if self._num_waiting > _MOST_WAITING_LINES:
            raise errors.StoreError("Too many lines of logs wait to be stored; try again later.")

    def add(self, member: members.Member, number: int, rows: list[log.LogRow]) -> None:
        """Adds the lines of a report, the lock of whose agent is held.

        Also one without lines counts as kept only when those before it are stored.
        """
        with self._lock:
            self._num_waiting += len(rows)
            self._waiting.append(_Batch(member, member.session, number, rows))

    def read(self) -> list[log.LogRow]:
        """Returns the lines that were added since the last call, whose lines are stored now."""
        for each in self._unconfirmed:
            each.member.note_kept(each.session, each.number)
        with self._lock:
            self._unconfirmed = list(self._waiting)
            self._waiting.clear()
            self._num_waiting = 0
        return [row for each in self._unconfirmed for row in each.rows]
