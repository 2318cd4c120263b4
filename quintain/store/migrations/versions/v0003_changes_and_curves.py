"""Notes what changes, keeps the curves of metrics in few points, and when processes ran."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from quintain.store import session, statements

revision: str = "0003"
down_revision: str | Sequence[str] | None = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables; there are curves of the metrics, and spans of the processes, at once."""
    op.create_table(
        "changes",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer()),
        sa.Column("ref", sa.Text()),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "curves",
        _owner("curves", "experiment"),
        _owner("curves", "trial", primary_key=True),
        sa.Column("group", sa.String(32), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("num_points", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.Double(), nullable=False),
        sa.Column("min", sa.Double(), nullable=False),
        sa.Column("max", sa.Double(), nullable=False),
        sa.Column("last_batches", sa.BigInteger(), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
    )
    op.create_index("ix_curves_experiment_id_trial_id", "curves", ["experiment_id", "trial_id"])
    op.create_table(
        "spans",
        sa.Column("launch_id", sa.String(64), primary_key=True),
        _owner("spans", "trial"),
        _owner("spans", "experiment"),
        sa.Column("slots", sa.Text(), nullable=False),
        sa.Column("start_time", sa.Double(), nullable=False),
        sa.Column("end_time", sa.Double()),
    )
    op.create_index("ix_spans_experiment_id", "spans", ["experiment_id"])
    op.create_index("ix_spans_trial_id", "spans", ["trial_id"])
    op.execute(
        "INSERT INTO spans (launch_id, trial_id, experiment_id, slots, start_time) "
        "SELECT launch_id, trial_id, experiment_id, slots, start_time FROM runs"
    )
    connection = op.get_bind()
    writing = session.Session(_find_runner(connection))
    # One trial at a time, so that memory holds the metrics of one.
    for (trial_id,) in connection.execute(sa.text("SELECT id FROM trials")).all():
        writing.rebuild_curves(trial_id)


def downgrade() -> None:
    """Drops the tables."""
    for name in ("spans", "curves", "changes"):
        op.drop_table(name)


def _find_runner(connection: sa.Connection) -> statements.Runner:
    raw: Any = connection.connection.dbapi_connection
    if isinstance(raw, sqlite3.Connection):
        return statements.for_sqlite(raw)
    from quintain.store.postgres import postgres_statements  # noqa: PLC0415 - SQLite does without

    return postgres_statements.build_runner(raw)


def _owner(table: str, owner: str, *, primary_key: bool = False) -> sa.Column[int]:
    """Returns a column of the number of what a row belongs to."""
    name = f"{owner}_id"
    key = sa.ForeignKey(f"{owner}s.id", ondelete="CASCADE", name=f"fk_{table}_{name}")
    return sa.Column(name, sa.Integer(), key, primary_key=primary_key, nullable=False)
