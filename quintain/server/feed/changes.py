"""Changes of the store between two moments, for the page."""

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from quintain import errors
from quintain.records.rows import change, codec
from quintain.server.feed import cursors, summaries

if TYPE_CHECKING:
    from quintain.store import reading

MOST_CHANGES: Final = 1000
"""Changes of a batch."""

_Kind = change.ChangeKind


class Batch:
    """Changes that follow one another, and what they have made.

    Attributes:
        until: The newest of the changes.
        cursor: The same as a cursor.
    """

    def __init__(self, home: str, until: int, items: Mapping[str, list["_Item"]]) -> None:
        self.until = until
        self.cursor = cursors.write(home, until)
        self._items = items
        self._texts: dict[tuple[int | None, int | None], str | None] = {}

    def encode(
        self,
        experiment_id: int | None,
        trial_id: int | None,
        may_read: Callable[[int], bool] | None = None,
    ) -> str | None:
        """Returns as JSON what belongs to an experiment and a trial, or None if nothing does.

        Args:
            experiment_id: The experiment; None for all.
            trial_id: The trial; None for all. Experiments are not left out because of it.
            may_read: Which experiments may be told of; all if None.
        """
        if may_read is not None:
            return self._encode(experiment_id, trial_id, functools.cache(may_read))
        key = experiment_id, trial_id
        if key not in self._texts:
            self._texts[key] = self._encode(experiment_id, trial_id, lambda _: True)
        return self._texts[key]

    def _encode(
        self, experiment_id: int | None, trial_id: int | None, may_read: Callable[[int], bool]
    ) -> str | None:
        chosen = {
            kind: [
                plain
                for (owner, trial), plain in items
                if experiment_id in (None, owner) and (trial is None or trial_id in (None, trial))
                if owner == change.NO_EXPERIMENT or may_read(owner)
            ]
            for kind, items in self._items.items()
        }
        chosen = {kind: plains for kind, plains in chosen.items() if plains}
        if not chosen:
            return None
        plain = {"cursor": self.cursor, **chosen}
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))


_Item = tuple[tuple[int, int | None], Any]
"""Experiment and trial of something, and what it is, as plain data."""


def read(session: "reading.Reader", after: int) -> Batch | None:
    """Returns the changes after one, at most `MOST_CHANGES`, or None if there are none.

    What has changed several times is there once, as it is now; it may be newer than the last of
    these changes, and come again with the next ones.
    """
    found = session.list_changes(after, MOST_CHANGES)
    if not found:
        return None
    by_kind: dict[change.ChangeKind, list[change.Change]] = {kind: [] for kind in _Kind}
    for each in found:
        by_kind[each.kind].append(each)
    items: dict[str, list[_Item]] = {
        "experiments": _read_experiments(session, by_kind),
        "deleted_experiments": [
            ((each.experiment_id, None), each.experiment_id)
            for each in by_kind[_Kind.EXPERIMENT_DELETED]
        ],
        # What launches took is what their trials took.
        "trials": _read_trials(session, [*by_kind[_Kind.TRIAL], *by_kind[_Kind.RUN]]),
        "cuts": [(_own(each), [each.trial_id, int(each.ref or 0)]) for each in by_kind[_Kind.CUT]],
        "metrics": _read_metrics(session, by_kind[_Kind.METRICS]),
        "logs": [
            (owner, [owner[1], first]) for owner, first in _find_firsts(by_kind[_Kind.LOGS]).items()
        ],
        "checkpoints": _read_checkpoints(session, by_kind[_Kind.CHECKPOINT]),
        "models": [((change.NO_EXPERIMENT, None), True)] if by_kind[_Kind.MODEL] else [],
        "processes": [(owner, owner[1]) for owner in dict.fromkeys(map(_own, by_kind[_Kind.RUN]))],
    }
    return Batch(cursors.find_home(session), found[-1].id, items)


def _own(each: change.Change) -> tuple[int, int | None]:
    return each.experiment_id, each.trial_id


def _find_firsts(changes: Iterable[change.Change]) -> dict[tuple[int, int | None], int]:
    """Returns the smallest number that changes of each trial refer to."""
    firsts: dict[tuple[int, int | None], int] = {}
    for each in changes:
        number = int(each.ref or 0)
        firsts[_own(each)] = min(number, firsts.get(_own(each), number))
    return firsts


def _read_experiments(
    session: "reading.Reader", by_kind: Mapping[change.ChangeKind, list[change.Change]]
) -> list[_Item]:
    # A trial that has changed its state changes the summary of its experiment.
    changed = [*by_kind[_Kind.EXPERIMENT], *by_kind[_Kind.TRIAL]]
    experiments = []
    for experiment_id in dict.fromkeys(each.experiment_id for each in changed):
        try:
            experiments.append(session.get_experiment(experiment_id))
        except errors.NotFoundError:
            continue  # It was deleted since, which a later change says.
    return [((one["id"], None), one) for one in summaries.build(session, experiments)]


def _read_trials(session: "reading.Reader", changes: Iterable[change.Change]) -> list[_Item]:
    owners = dict.fromkeys(_own(each) for each in changes)
    found = session.list_trials(ids=[trial_id for _, trial_id in owners if trial_id])
    return [((one.experiment_id, one.id), codec.to_plain(one)) for one in found]


def _read_metrics(session: "reading.Reader", changes: Iterable[change.Change]) -> list[_Item]:
    items: list[_Item] = []
    for owner, first in _find_firsts(changes).items():
        for row in session.list_metrics_since(owner[1] or 0, first):
            values = codec.to_plain(row.metrics)
            plain = [row.trial_id, row.group.value, row.total_batches, row.time, values]
            items.append((owner, plain))
    return items


def _read_checkpoints(session: "reading.Reader", changes: Iterable[change.Change]) -> list[_Item]:
    items: list[_Item] = []
    for uuid in dict.fromkeys(each.ref or "" for each in changes):
        try:
            found = session.get_checkpoint(uuid)
        except errors.NotFoundError:
            continue  # Its experiment was deleted since.
        items.append(((found.experiment_id, found.trial_id), codec.to_plain(found)))
    return items
