"""Tables and curves of many trials, read from the store and written as the page takes them."""

from __future__ import annotations

import collections
import json
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from quintain import errors
from quintain.records import rows as kinds
from quintain.records import views
from quintain.records.views import trial_names
from quintain.server.feed import cursors

if TYPE_CHECKING:
    # Who asks has opened it, or need not wait for it.
    from quintain.store import reading

_ALIGNMENT: Final = 8
_POINT_BYTES: Final = 24
_MOST_KEPT: Final = 4
_MOST_BEHIND: Final = 1000


def read_table(
    session: reading.Reader, experiment: kinds.experiment.Experiment
) -> views.trial_table.TrialTable:
    """Reads all trials of an experiment."""
    columns = session.read_trial_columns(experiment.id, (*views.trial_table.COLUMNS, "hparams"))
    hparams = views.trial_table.to_hparam_columns(columns.pop("hparams"))
    searcher = experiment.config.get("searcher", {})
    curves = session.read_curve_columns(experiment.id)
    return views.trial_table.TrialTable(
        cursors.find_newest(session),
        len(columns["id"]),
        columns,
        hparams,
        _to_metrics(curves, columns["id"], searcher),
    )


def _to_metrics(
    curves: Mapping[str, list[Any]], ids: Sequence[int], searcher: Mapping[str, Any]
) -> dict[str, views.trial_table.MetricColumns]:
    rows_by_name: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for row, pair in enumerate(zip(curves["group"], curves["name"], strict=True)):
        rows_by_name[pair].append(row)
    found = {}
    # Those of validations come first, which are what most look at.
    for group, name in sorted(rows_by_name, key=lambda pair: (pair[0] != "validation", *pair)):
        rows = rows_by_name[group, name]
        trial_ids = [curves["trial_id"][row] for row in rows]
        values = {part: [curves[part][row] for row in rows] for part in ("last", "min", "max")}
        if trial_ids != ids:
            places = {trial_id: place for place, trial_id in enumerate(trial_ids)}
            values = {
                part: [None if (at := places.get(one)) is None else column[at] for one in ids]
                for part, column in values.items()
            }
        best = views.trial_table.find_best_statistic(name, searcher)
        found[f"{group}/{name}"] = views.trial_table.MetricColumns(best, **values)
    return found


def write_table(table: views.trial_table.TrialTable) -> bytes:
    """Returns a table as JSON."""
    # Several times as fast as the standard library, for numbers above all.
    import pydantic_core  # noqa: PLC0415 - commands that show no table need not wait for it

    plain = {**vars(table), "metrics": {name: vars(one) for name, one in table.metrics.items()}}
    return pydantic_core.to_json(plain, inf_nan_mode="strings")


class WrittenTables:
    """Tables as JSON, kept while nothing of their experiments changes."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[str, bytes]] = {}
        self._lock = threading.Lock()

    def write(self, session: reading.Reader, experiment: kinds.experiment.Experiment) -> bytes:
        """Returns the table of an experiment."""
        with self._lock:
            cursor, text = self._kept.pop(experiment.id, ("", b""))
        if not _is_true(session, experiment.id, cursor):
            table = read_table(session, experiment)
            cursor, text = table.cursor, write_table(table)
        with self._lock:
            self._kept[experiment.id] = cursor, text
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return text


def _is_true(session: reading.Reader, experiment_id: int, cursor: str) -> bool:
    """Returns whether nothing of an experiment has changed since a cursor, not long ago."""
    start = cursors.parse(cursor, cursors.find_home(session))
    oldest, newest = session.get_change_bounds()
    # Who has the table goes on from its cursor, which must not be too old for that.
    if start is None or not max(oldest, newest - _MOST_BEHIND) <= start <= newest:
        return False
    return not session.has_changed(experiment_id, start)


def read_curves(
    session: reading.Reader,
    experiment_id: int,
    names: Sequence[str],
    trial_ids: Sequence[int],
) -> bytes:
    """Returns curves in the page's format.

    It is: the length of the header as uint32; the header, JSON that is filled up with spaces until
    numbers after it lie at multiples of 8 bytes; then for each curve its batches, its values and
    its times. All numbers are little-endian, those of curves float64. The header is
    `{"cursor": TEXT, "curves": [[trial_id, "group/name", number of points], ...]}`.

    Args:
        session: Reads.
        experiment_id: The experiment.
        names: Metrics as `group/name`; empty for all.
        trial_ids: Trials; empty for all.

    Raises:
        ConfigError: If a name has no group.
    """
    curves = session.list_packed_curves(
        experiment_id, names=[parse_metric(name) for name in names], trial_ids=trial_ids
    )
    header = json.dumps(
        {
            "cursor": cursors.find_newest(session),
            "curves": [
                (trial_id, name, len(points) // _POINT_BYTES) for trial_id, name, points in curves
            ],
        },
        separators=(",", ":"),
    ).encode()
    header += b" " * (-(4 + len(header)) % _ALIGNMENT)
    return b"".join([struct.pack("<I", len(header)), header, *(curve[2] for curve in curves)])


def parse_metric(name: str) -> tuple[kinds.metric.MetricGroup, str]:
    """Returns group and name of a metric such as `validation/accuracy`.

    Raises:
        ConfigError: If it has no group.
    """
    group, divider, bare = name.partition("/")
    groups = [each.value for each in kinds.metric.MetricGroup]
    if not divider or group not in groups:
        raise errors.ConfigError(
            f"metric: got {errors.show(name)}, expected a group ({', '.join(groups)}), a slash, "
            "and a name, such as 'validation/accuracy'."
        )
    return kinds.metric.MetricGroup(group), bare


def find_metric(name: str, table: views.trial_table.TrialTable) -> str:
    """Returns the full name, without statistic, of a metric that a user names.

    Args:
        name: Such as `accuracy` or `validation/accuracy`.
        table: Has the metrics.

    Raises:
        ConfigError: If there is none.
    """
    known = {f"{each}.best" for each in table.metrics}
    found = trial_names.find(name, known)
    if found is None:
        names = [trial_names.shorten(each) for each in sorted(known)]
        listed = (
            f"expected one of {errors.enumerate_some(names)}" if names else "but there are none yet"
        )
        raise errors.ConfigError(
            f"metric: got {errors.show(name)}, {listed}.{errors.suggest(name, names)}"
        )
    return found.removesuffix(".best")
