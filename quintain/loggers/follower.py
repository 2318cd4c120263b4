"""Replay of a run's record to a logger: each row once, across crashes and outages."""

import dataclasses
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from quintain import errors
from quintain.loggers import metric_logger
from quintain.process import user_errors

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECS: Final = 10.0
_LONGEST_PAUSE_SECS: Final = 600.0


@dataclasses.dataclass(frozen=True)
class Cursor:
    """Position of a logger in a run's record."""

    run_id: str = ""
    """What the logger recognises the run by."""

    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Newest step that was sent, by group."""

    def to_text(self) -> str:
        """Returns it as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Cursor":
        """Returns what `to_text` wrote; of an empty or damaged text the beginning."""
        try:
            content = json.loads(text)
            steps = {str(group): int(step) for group, step in content["steps"].items()}
            return cls(str(content["run_id"]), steps)
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()


class Follower:
    """Sends the points of one run to one logger.

    Rows are sent from the run's own record, and the cursor is kept after they were: nothing is lost
    by a crash or an outage, and at most the newest rows are sent a second time.
    """

    def __init__(
        self,
        built: metric_logger.MetricLogger,
        name: str,
        run: metric_logger.LoggedRun,
        cursor: Cursor,
        keep: Callable[[Cursor], None],
        *,
        report: Callable[[str], None] = logger.warning,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Stores the parts; nothing is sent yet.

        Args:
            built: The logger.
            name: What it is called in messages.
            run: The run.
            cursor: How far it was sent.
            keep: Keeps a cursor.
            report: Is told of outages.
            clock: Returns seconds that never go back.
        """
        self._logger = built
        self._name = name
        self._run = run
        self._cursor = cursor
        self._keep = keep
        self._report = report
        self._clock = clock
        self._is_open = False
        self._pause = 0.0
        self._retry_at = -math.inf

    @property
    def cursor(self) -> Cursor:
        """Position up to which the run was sent."""
        return self._cursor

    @property
    def is_open(self) -> bool:
        """True once the logger has begun."""
        return self._is_open

    def send(self, points: Iterable[metric_logger.Point], *, is_last: bool = False) -> None:
        """Sends what was not sent yet; after an outage not before a while.

        Args:
            points: Points of the run, by rising step; those that were sent are left out.
            is_last: Whether there will be no other chance.
        """
        if self._clock() < self._retry_at and not is_last:
            return
        steps = self._cursor.steps
        new = [point for point in points if point.step > steps.get(point.group, -1)]
        if not new and self._is_open:
            return
        if self._try(lambda: self._send(new)):
            self._pause = 0.0
        else:
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE_SECS), _LONGEST_PAUSE_SECS)
            self._retry_at = self._clock() + self._pause

    def close(self, ending: metric_logger.Ending) -> None:
        """Tells the logger that the process ends."""
        if self._is_open:
            self._try(lambda: self._logger.close(ending))
            self._is_open = False

    def _send(self, points: list[metric_logger.Point]) -> None:
        if not self._is_open:
            run_id = self._logger.open(self._run, self._cursor.run_id)
            self._is_open = True
            self._move(run_id, {})
        if points:
            self._logger.log(points)
            newest: dict[str, int] = {}
            for point in points:
                newest[point.group] = max(point.step, newest.get(point.group, point.step))
            self._move(self._cursor.run_id, newest)

    def _move(self, run_id: str, steps: Mapping[str, int]) -> None:
        self._cursor = Cursor(run_id, {**self._cursor.steps, **steps})
        self._keep(self._cursor)

    def _try(self, act: Callable[[], Any]) -> bool:
        """Does something that may fail in any way, without harm to the training."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - a service of others, or code of the user
            if not self._pause:
                place = user_errors.explain(error).place
                where = f" ({place})" if place else ""
                told = str(error) if isinstance(error, errors.QuintainError) else repr(error)
                self._report(
                    f"The logger {self._name!r} fails{where}: {told} The metrics stay on record "
                    "and are sent when it works again."
                )
            return False
        return True


def to_finite(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns the finite numbers of metrics, those of nested ones by names with `|`.

    Example:
        >>> to_finite({"a": 1, "b": None, "c": {"d": 0.5, "e": "text"}, "f": float("nan")})
        {'a': 1.0, 'c|d': 0.5}
    """
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            found |= {f"{name}|{inner}": number for inner, number in to_finite(value).items()}
        elif isinstance(value, int | float) and math.isfinite(value):
            found[name] = float(value)
    return found
