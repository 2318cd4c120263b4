"""Makes room for large numbers and long texts, and gives numbers without sequences."""

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | Sequence[str] | None = "0005"
branch_labels = None
depends_on = None

_NUMBERED: Final = (
    *("batch_metrics", "changes", "deletions", "events", "experiments", "logs", "metrics"),
    "trials",
)
_NUMBERS: Final = {
    "batch_metrics": ("id", "trial_id"),
    "changes": ("id", "experiment_id", "trial_id"),
    "checkpoints": ("trial_id", "experiment_id"),
    "curves": ("experiment_id", "trial_id"),
    "deletions": ("id", "experiment_id"),
    "events": ("id", "experiment_id"),
    "experiments": ("id", "parent_id"),
    "logs": ("id", "trial_id"),
    "metrics": ("id", "trial_id"),
    "runs": ("trial_id", "experiment_id"),
    "sent_metrics": ("trial_id",),
    "spans": ("trial_id", "experiment_id"),
    "trials": ("id", "experiment_id", "parent_trial_id", "restarts"),
}
_TEXTS: Final = {
    "changes": ("kind",),
    "checkpoints": ("uuid", "state"),
    "curves": ("group",),
    "deletions": ("kind",),
    "experiments": ("state",),
    "home": ("home_id",),
    "logs": ("source",),
    "metrics": ("group",),
    "runs": ("launch_id", "state"),
    "sent_metrics": ("logger",),
    "spans": ("launch_id",),
    "trials": ("request_id", "state", "latest_checkpoint"),
}


def upgrade() -> None:
    """Adds two tables; SQLite has room in its columns as they are."""
    op.create_table(
        "last_ids",
        sa.Column("table_name", sa.Text, primary_key=True),
        sa.Column("last_id", sa.BigInteger, nullable=False),
    )
    op.create_table("holder", sa.Column("mark", sa.Text, primary_key=True))
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in _NUMBERED:
        op.execute(
            "INSERT INTO last_ids (table_name, last_id) "
            f"SELECT '{table}', last_value FROM {table}_id_seq WHERE is_called"
        )
        op.execute(f"ALTER TABLE {table} ALTER COLUMN id DROP DEFAULT")
        op.execute(f"DROP SEQUENCE {table}_id_seq")
    _change(_NUMBERS, "BIGINT")
    _change(_TEXTS, "TEXT")


def downgrade() -> None:
    """Drops the tables; numbers are given by sequences again."""
    if op.get_bind().dialect.name == "postgresql":
        for table in _NUMBERED:
            op.execute(f"CREATE SEQUENCE {table}_id_seq OWNED BY {table}.id")
            op.execute(
                f"SELECT setval('{table}_id_seq', last_id) FROM last_ids "
                f"WHERE table_name = '{table}'"
            )
            op.execute(f"ALTER TABLE {table} ALTER COLUMN id SET DEFAULT nextval('{table}_id_seq')")
    op.drop_table("holder")
    op.drop_table("last_ids")


def _change(names: dict[str, tuple[str, ...]], kind: str) -> None:
    for table, columns in names.items():
        changes = ", ".join(f'ALTER COLUMN "{column}" TYPE {kind}' for column in columns)
        op.execute(f"ALTER TABLE {table} {changes}")
