"""Tables of the database, one for each kind of record.

The statements that make them are in `sqlite/migrations` and `postgres/migrations`. SQLite takes
numbers and texts of any length whatever its columns say, and keeps those of its first schema:
changing them would copy all rows.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Table(NamedTuple):
    """A table."""

    keys: tuple[str, ...]
    """The columns that tell rows from each other."""

    columns: Mapping[str, type[Any]]
    """All columns, in order, and the type of their values."""

    is_autoincrement: bool
    """Whether SQLite never gives the number of a deleted row again."""


def _table(*keys: str, is_autoincrement: bool = False, **columns: type[Any]) -> Table:
    return Table(keys, columns, is_autoincrement)


TABLES: Final[dict[str, Table]] = {
    "experiments": _table(
        "id",
        # Directories and notes have the numbers of deleted experiments.
        is_autoincrement=True,
        id=int,
        state=str,
        config=str,
        original_config=str,
        model_dir=str,
        description=str,
        labels=str,
        progress=float,
        start_time=float,
        end_time=float,
        is_archived=bool,
        parent_id=int,
        reason=str,
    ),
    "trials": _table(
        "id",
        is_autoincrement=True,
        id=int,
        experiment_id=int,
        request_id=str,
        state=str,
        hparams=str,
        seed=int,
        parent_trial_id=int,
        restarts=int,
        total_batches=int,
        latest_checkpoint=str,
        best_metric=float,
        latest_metric=float,
        progress=float,
        start_time=float,
        end_time=float,
        reason=str,
        note=str,
    ),
    "events": _table("id", id=int, experiment_id=int, event=str),
    "metrics": _table(
        "id",
        id=int,
        trial_id=int,
        group=str,
        total_batches=int,
        metrics=str,
        num_inputs=int,
        time=float,
    ),
    "curves": _table(
        *("trial_id", "group", "name"),
        experiment_id=int,
        trial_id=int,
        group=str,
        name=str,
        num_points=int,
        last=float,
        min=float,
        max=float,
        last_batches=int,
        points=bytes,
    ),
    "batch_metrics": _table("id", id=int, trial_id=int, total_batches=int, batch_metrics=str),
    "checkpoints": _table(
        "uuid",
        uuid=str,
        trial_id=int,
        experiment_id=int,
        total_batches=int,
        state=str,
        files=str,
        metric=float,
        metadata=str,
        time=float,
    ),
    "logs": _table("id", id=int, trial_id=int, time=float, source=str, text=str),
    "runs": _table(
        "launch_id",
        launch_id=str,
        trial_id=int,
        experiment_id=int,
        slots=str,
        state=str,
        identity=str,
        start_time=float,
        node=str,
        others=str,
    ),
    "spans": _table(
        "launch_id",
        launch_id=str,
        trial_id=int,
        experiment_id=int,
        slots=str,
        start_time=float,
        end_time=float,
    ),
    "changes": _table(
        "id",
        # A number that was given twice would hide a change.
        is_autoincrement=True,
        id=int,
        kind=str,
        experiment_id=int,
        trial_id=int,
        ref=str,
    ),
    "sent_metrics": _table(
        *("trial_id", "logger"), trial_id=int, logger=str, cursor=str, is_closed=bool
    ),
    "nodes": _table("name", name=str, slots=str, labels=str, is_drained=bool),
    # One row: the home whose database this is.
    "home": _table("home_id", home_id=str),
    "deletions": _table("id", id=int, kind=str, root=str, name=str, experiment_id=int, time=float),
    # The last number of each table, as PostgreSQL has it; SQLite keeps such a table by itself.
    "last_ids": _table("table_name", table_name=str, last_id=int),
    # One row: the master that wrote last, as PostgreSQL has it; an SQLite file is one home's.
    "holder": _table("mark", mark=str),
}
"""Each table after those whose rows its own belong to."""
