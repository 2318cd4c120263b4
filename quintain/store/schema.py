"""Tables of the database: one for each kind of record, and a few more.

The statements that make them are in `sqlite/migrations` and `postgres/migrations`. SQLite takes
numbers and texts of any length whatever its columns say, and keeps those of its first schema:
changing them would copy all rows.
"""

import functools
import typing
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from quintain.records import rows as kinds
from quintain.records import team
from quintain.store import columns

_KEPT: Final = frozenset({int, float, bool, bytes})


class Table(NamedTuple):
    """A table."""

    keys: tuple[str, ...]
    """The columns that tell rows from each other."""

    columns: Mapping[str, type[Any]]
    """All columns, and the type of their values."""

    is_autoincrement: bool = False
    """Whether SQLite never gives the number of a deleted row again."""


def _of(
    kind: type[Any], *keys: str, is_autoincrement: bool = False, **added: type[Any]
) -> dict[str, Table]:
    """Returns the table of a kind of record, with columns that records lack."""
    hints = typing.get_type_hints(kind)
    found = {name: _find_kind(hints[name]) for name in columns.list_names(kind)}
    return {
        columns.TABLES[kind.__name__]: Table(keys or ("id",), {**added, **found}, is_autoincrement)
    }


def _find_kind(hint: Any) -> type[Any]:
    """Returns the type in a column: enumerations and all that is JSON are texts."""
    options = [each for each in typing.get_args(hint) if each is not type(None)]
    single = options[0] if type(None) in typing.get_args(hint) else hint
    return single if single in _KEPT else str


@functools.cache
def list_tables() -> dict[str, Table]:
    """Returns each table after those whose rows its own belong to."""
    return {
        # Directories and notes have the numbers of deleted experiments.
        **_of(kinds.experiment.Experiment, is_autoincrement=True),
        **_of(kinds.trial.TrialRecord, is_autoincrement=True),
        "events": Table(("id",), {"id": int, "experiment_id": int, "event": str}),
        **_of(kinds.metric.MetricRow, id=int),
        **_of(kinds.curve.Curve, "trial_id", "group", "name"),
        "batch_metrics": Table(
            ("id",), {"id": int, "trial_id": int, "total_batches": int, "batch_metrics": str}
        ),
        **_of(kinds.checkpoint.Checkpoint, "uuid"),
        **_of(kinds.log.LogRow),
        **_of(kinds.launch.Launch, "launch_id"),
        **_of(kinds.launch.Span, "launch_id"),
        # A number that was given twice would hide a change.
        **_of(kinds.change.Change, is_autoincrement=True),
        **_of(kinds.sent_metrics.SentMetrics, "trial_id", "logger"),
        **_of(kinds.node.KnownNode, "name"),
        # Nothing changes or deletes its rows, nor does the database let anything.
        **_of(team.AuditEntry),
        **_of(team.Grant, "user_name", "project"),
        # One row: the home whose database this is.
        "home": Table(("home_id",), {"home_id": str}),
        **_of(kinds.deletion.Deletion),
        **_of(kinds.registered_model.ModelVersion),
        **_of(kinds.registered_model.AliasMove),
        # The last number of each table, as PostgreSQL has it; SQLite keeps such a table by itself.
        "last_ids": Table(("table_name",), {"table_name": str, "last_id": int}),
        # One row: the master that wrote last, as PostgreSQL has it; an SQLite file is one home's.
        "holder": Table(("mark",), {"mark": str}),
    }
