"""The tables, one for each kind of record; columns have the names of the record's fields."""

import dataclasses
import enum
import functools
import json
import math
import typing
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

from quintain.records import (
    checkpoint,
    codec,
    deletion,
    experiment,
    log,
    metric,
    run,
    states,
    trial,
)


class Plain(sa.types.TypeDecorator[Any]):
    """A value of a type that `records.codec` knows, as compact JSON."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        """Stores the type of the values.

        Args:
            kind: The annotation of the record's field.
        """
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        """Returns the JSON text."""
        del dialect
        return None if value is None else to_json(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """Returns the value of a JSON text.

        Raises:
            ValueError: If the text is damaged.
        """
        del dialect
        if value is None:
            return None
        plain = json.loads(value)
        if plain is None:
            raise ValueError("there is no value in its text")
        return codec.from_plain(self.kind, plain)


class Number(sa.types.TypeDecorator[float]):
    """A float; not-a-number survives SQLite, which takes it for NULL, and sorts last."""

    impl = sa.Double
    cache_ok = True

    def bind_processor(self, dialect: sa.Dialect) -> Callable[[float | None], Any] | None:
        """Returns what makes a number one that the database can hold."""
        if dialect.name != "sqlite":
            return super().bind_processor(dialect)

        def to_column(value: float | None) -> Any:
            return "NaN" if value is not None and math.isnan(value) else value

        return to_column

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> float | None:
        """Returns the number."""
        del dialect
        return None if value is None else float(value)


class State(sa.types.TypeDecorator[enum.StrEnum]):
    """A member of an enumeration, as its text."""

    impl = sa.String(32)
    cache_ok = True

    def __init__(self, kind: type[enum.StrEnum]) -> None:
        """Stores the enumeration."""
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: enum.StrEnum | None, dialect: sa.Dialect) -> str | None:
        """Returns the text."""
        del dialect
        return None if value is None else value.value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> enum.StrEnum | None:
        """Returns the member."""
        del dialect
        return None if value is None else self.kind(value)


def to_json(value: Any) -> str:
    """Returns a value as compact JSON; numbers that are not finite become texts."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):
        return _ENCODER.encode(codec.to_plain(value))


_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=False)

REVISION: Final = "0002"
"""The newest of the migrations, which makes these tables."""

METADATA: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _owner(table: str) -> sa.ForeignKey:
    return sa.ForeignKey(f"{table}.id", ondelete="CASCADE")


EXPERIMENTS: Final = sa.Table(
    "experiments",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("state", State(states.ExperimentState), nullable=False),
    sa.Column("config", Plain(dict[str, Any]), nullable=False),
    sa.Column("original_config", sa.Text, nullable=False),
    sa.Column("model_dir", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("labels", Plain(tuple[str, ...]), nullable=False),
    sa.Column("progress", Number, nullable=False),
    sa.Column("start_time", Number, nullable=False),
    sa.Column("end_time", Number),
    sa.Column("is_archived", sa.Boolean, nullable=False),
    sa.Column("parent_id", sa.Integer),
    sa.Column("reason", sa.Text, nullable=False),
    # Numbers of deleted experiments are not given again: directories and notes have them.
    sqlite_autoincrement=True,
)

TRIALS: Final = sa.Table(
    "trials",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("experiment_id", sa.Integer, _owner("experiments"), nullable=False, index=True),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("state", State(states.TrialState), nullable=False),
    sa.Column("hparams", Plain(dict[str, Any]), nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("parent_trial_id", sa.Integer),
    sa.Column("restarts", sa.Integer, nullable=False),
    sa.Column("total_batches", sa.BigInteger, nullable=False),
    sa.Column("latest_checkpoint", sa.String(64)),
    sa.Column("best_metric", Number),
    sa.Column("latest_metric", Number),
    sa.Column("progress", sa.Double, nullable=False),
    sa.Column("start_time", sa.Double),
    sa.Column("end_time", sa.Double),
    sa.Column("reason", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)

EVENTS: Final = sa.Table(
    "events",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("experiment_id", sa.Integer, _owner("experiments"), nullable=False, index=True),
    sa.Column("event", Plain(dict[str, Any]), nullable=False),
)

METRICS: Final = sa.Table(
    "metrics",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer, _owner("trials"), nullable=False),
    sa.Column("group", State(metric.MetricGroup), nullable=False),
    sa.Column("total_batches", sa.BigInteger, nullable=False),
    sa.Column("metrics", Plain(dict[str, Any]), nullable=False),
    sa.Column("num_inputs", sa.BigInteger, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
    sa.Index(None, "trial_id", "total_batches"),
)

BATCH_METRICS: Final = sa.Table(
    "batch_metrics",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer, _owner("trials"), nullable=False),
    sa.Column("total_batches", sa.BigInteger, nullable=False),
    sa.Column("batch_metrics", Plain(list[dict[str, Any]]), nullable=False),
    sa.Index(None, "trial_id", "total_batches"),
)

CHECKPOINTS: Final = sa.Table(
    "checkpoints",
    METADATA,
    sa.Column("uuid", sa.String(64), primary_key=True),
    sa.Column("trial_id", sa.Integer, _owner("trials"), nullable=False, index=True),
    sa.Column("experiment_id", sa.Integer, _owner("experiments"), nullable=False, index=True),
    sa.Column("total_batches", sa.BigInteger, nullable=False),
    sa.Column("state", State(checkpoint.CheckpointState), nullable=False),
    sa.Column("files", Plain(dict[str, int]), nullable=False),
    sa.Column("metric", Number),
    sa.Column("metadata", Plain(dict[str, Any]), nullable=False),
    sa.Column("time", sa.Double, nullable=False),
)

LOGS: Final = sa.Table(
    "logs",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer, _owner("trials"), nullable=False),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("source", State(log.LogSource), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Index(None, "trial_id", "id"),
)

RUNS: Final = sa.Table(
    "runs",
    METADATA,
    sa.Column("launch_id", sa.String(64), primary_key=True),
    sa.Column("trial_id", sa.Integer, _owner("trials"), nullable=False, index=True),
    sa.Column("experiment_id", sa.Integer, _owner("experiments"), nullable=False, index=True),
    sa.Column("slots", Plain(tuple[int, ...]), nullable=False),
    sa.Column("state", State(run.RunState), nullable=False),
    sa.Column("identity", Plain(trial.ProcessIdentity)),
    sa.Column("start_time", sa.Double, nullable=False),
)

HOME: Final = sa.Table("home", METADATA, sa.Column("home_id", sa.String(64), primary_key=True))
"""One row: the home whose database this is."""

DELETIONS: Final = sa.Table(
    "deletions",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("kind", State(deletion.DeletionKind), nullable=False),
    sa.Column("root", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # No foreign key: the experiment may be gone before its files are.
    sa.Column("experiment_id", sa.Integer, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
)

TABLES: Final[dict[type[Any], sa.Table]] = {
    experiment.Experiment: EXPERIMENTS,
    trial.TrialRecord: TRIALS,
    metric.MetricRow: METRICS,
    checkpoint.Checkpoint: CHECKPOINTS,
    log.LogRow: LOGS,
    run.Run: RUNS,
    deletion.Deletion: DELETIONS,
}
"""The table of each kind of record."""

R = typing.TypeVar("R")


def to_row(record: Any) -> dict[str, Any]:
    """Returns the columns of a record; an `id` of 0 is left to the database."""
    row = dict(vars(record))
    if not row.get("id", 1):
        del row["id"]
    return row


def to_record(kind: type[R], row: sa.RowMapping) -> R:
    """Returns the record of a row of the table of its kind."""
    fields: Any = kind
    return kind(**{name: row[name] for name in _field_names(fields)})


@functools.cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
