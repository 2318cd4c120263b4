"""Tables of the database, one for each kind of record.

SQLite takes numbers and texts of any length whatever its columns say, and keeps those of its first
schema: changing them would copy all rows.
"""

from typing import Final

import sqlalchemy as sa

METADATA: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""Numbers of rows."""


def _text(length: int) -> sa.types.TypeEngine[str]:
    """Returns the type of texts that are short, as a rule."""
    return sa.Text().with_variant(sa.String(length), "sqlite")


def _owner(table: str) -> sa.ForeignKey:
    return sa.ForeignKey(f"{table}.id", ondelete="CASCADE")


EXPERIMENTS: Final = sa.Table(
    "experiments",
    METADATA,
    sa.Column("id", ID, primary_key=True),
    sa.Column("state", _text(32), nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("original_config", sa.Text, nullable=False),
    sa.Column("model_dir", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("progress", sa.Double, nullable=False),
    sa.Column("start_time", sa.Double, nullable=False),
    sa.Column("end_time", sa.Double),
    sa.Column("is_archived", sa.Boolean, nullable=False),
    sa.Column("parent_id", ID),
    sa.Column("reason", sa.Text, nullable=False),
    # Numbers of deleted experiments are not given again: directories and notes have them.
    sqlite_autoincrement=True,
)

TRIALS: Final = sa.Table(
    "trials",
    METADATA,
    sa.Column("id", ID, primary_key=True),
    sa.Column("experiment_id", ID, _owner("experiments"), nullable=False, index=True),
    sa.Column("request_id", _text(64), nullable=False),
    sa.Column("state", _text(32), nullable=False),
    sa.Column("hparams", sa.Text, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("parent_trial_id", ID),
    sa.Column("restarts", ID, nullable=False),
    sa.Column("total_batches", sa.BigInteger, nullable=False),
    sa.Column("latest_checkpoint", _text(64)),
    sa.Column("best_metric", sa.Double),
    sa.Column("latest_metric", sa.Double),
    sa.Column("progress", sa.Double, nullable=False),
    sa.Column("start_time", sa.Double),
    sa.Column("end_time", sa.Double),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False, server_default=""),
    # It has all that the numbers of trials by state, which lists of experiments show, are made of.
    sa.Index(None, "experiment_id", "state", "id", "best_metric"),
    sqlite_autoincrement=True,
)

EVENTS: Final = sa.Table(
    "events",
    METADATA,
    sa.Column("id", ID, primary_key=True),
    sa.Column("experiment_id", ID, _owner("experiments"), nullable=False, index=True),
    sa.Column("event", sa.Text, nullable=False),
)

METRICS: Final = sa.Table(
    "metrics",
    METADATA,
    sa.Column("id", ID, primary_key=True),
    sa.Column("trial_id", ID, _owner("trials"), nullable=False),
    sa.Column("group", _text(32), nullable=False),
    sa.Column("total_batches", sa.BigInteger, nullable=False),
    sa.Column("metrics", sa.Text, nullable=False),
    sa.Column("num_inputs", sa.BigInteger, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
    sa.Index(None, "trial_id", "total_batches"),
)

CURVES: Final = sa.Table(
    "curves",
    METADATA,
    sa.Column("experiment_id", ID, _owner("experiments"), nullable=False),
    sa.Column("trial_id", ID, _owner("trials"), primary_key=True),
    sa.Column("group", _text(32), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("num_points", sa.BigInteger, nullable=False),
    sa.Column("last", sa.Double, nullable=False),
    sa.Column("min", sa.Double, nullable=False),
    sa.Column("max", sa.Double, nullable=False),
    sa.Column("last_batches", sa.BigInteger, nullable=False),
    sa.Column("points", sa.LargeBinary, nullable=False),
    sa.Index(None, "experiment_id", "trial_id"),
)

BATCH_METRICS: Final = sa.Table(
    "batch_metrics",
    METADATA,
    sa.Column("id", ID, primary_key=True),
    sa.Column("trial_id", ID, _owner("trials"), nullable=False),
    sa.Column("total_batches", sa.BigInteger, nullable=False),
    sa.Column("batch_metrics", sa.Text, nullable=False),
    sa.Index(None, "trial_id", "total_batches"),
)

CHECKPOINTS: Final = sa.Table(
    "checkpoints",
    METADATA,
    sa.Column("uuid", _text(64), primary_key=True),
    sa.Column("trial_id", ID, _owner("trials"), nullable=False, index=True),
    sa.Column("experiment_id", ID, _owner("experiments"), nullable=False, index=True),
    sa.Column("total_batches", sa.BigInteger, nullable=False),
    sa.Column("state", _text(32), nullable=False),
    sa.Column("files", sa.Text, nullable=False),
    sa.Column("metric", sa.Double),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
)

LOGS: Final = sa.Table(
    "logs",
    METADATA,
    sa.Column("id", ID, primary_key=True),
    sa.Column("trial_id", ID, _owner("trials"), nullable=False),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("source", _text(32), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Index(None, "trial_id", "id"),
)

RUNS: Final = sa.Table(
    "runs",
    METADATA,
    sa.Column("launch_id", _text(64), primary_key=True),
    sa.Column("trial_id", ID, _owner("trials"), nullable=False, index=True),
    sa.Column("experiment_id", ID, _owner("experiments"), nullable=False, index=True),
    sa.Column("slots", sa.Text, nullable=False),
    sa.Column("state", _text(32), nullable=False),
    sa.Column("identity", sa.Text),
    sa.Column("start_time", sa.Double, nullable=False),
    sa.Column("node", sa.Text, nullable=False, server_default=""),
    sa.Column("others", sa.Text, nullable=False, server_default="[]"),
)

SPANS: Final = sa.Table(
    "spans",
    METADATA,
    sa.Column("launch_id", _text(64), primary_key=True),
    sa.Column("trial_id", ID, _owner("trials"), nullable=False, index=True),
    sa.Column("experiment_id", ID, _owner("experiments"), nullable=False, index=True),
    sa.Column("slots", sa.Text, nullable=False),
    sa.Column("start_time", sa.Double, nullable=False),
    sa.Column("end_time", sa.Double),
)

CHANGES: Final = sa.Table(
    "changes",
    METADATA,
    sa.Column("id", ID, primary_key=True),
    sa.Column("kind", _text(32), nullable=False),
    # No foreign keys: that an experiment was deleted is a change, too.
    sa.Column("experiment_id", ID, nullable=False),
    sa.Column("trial_id", ID),
    sa.Column("ref", sa.Text),
    # A number that was given twice would hide a change.
    sqlite_autoincrement=True,
)

SENT_METRICS: Final = sa.Table(
    "sent_metrics",
    METADATA,
    sa.Column("trial_id", ID, _owner("trials"), primary_key=True),
    sa.Column("logger", _text(128), primary_key=True),
    sa.Column("cursor", sa.Text, nullable=False),
    sa.Column("is_closed", sa.Boolean, nullable=False),
)

NODES: Final = sa.Table(
    "nodes",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("slots", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("is_drained", sa.Boolean, nullable=False),
)

HOME: Final = sa.Table("home", METADATA, sa.Column("home_id", _text(64), primary_key=True))
"""One row: the home whose database this is."""

DELETIONS: Final = sa.Table(
    "deletions",
    METADATA,
    sa.Column("id", ID, primary_key=True),
    sa.Column("kind", _text(32), nullable=False),
    sa.Column("root", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # No foreign key: the experiment may be gone before its files are.
    sa.Column("experiment_id", ID, nullable=False),
    sa.Column("time", sa.Double, nullable=False),
)

LAST_IDS: Final = sa.Table(
    "last_ids",
    METADATA,
    sa.Column("table_name", sa.Text, primary_key=True),
    sa.Column("last_id", sa.BigInteger, nullable=False),
)
"""The last number of each table, as PostgreSQL has it; SQLite keeps such a table by itself."""

HOLDER: Final = sa.Table("holder", METADATA, sa.Column("mark", sa.Text, primary_key=True))
"""One row: the master that wrote last, as PostgreSQL has it; an SQLite file is one home's."""
