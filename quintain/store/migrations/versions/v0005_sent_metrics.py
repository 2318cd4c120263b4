"""Keeps how far the metrics of trials were sent to loggers."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | Sequence[str] | None = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table; nothing was sent yet."""
    op.create_table(
        "sent_metrics",
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("logger", sa.String(128), nullable=False),
        sa.Column("cursor", sa.Text, nullable=False),
        sa.Column("is_closed", sa.Boolean, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], "fk_sent_metrics_trial_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("trial_id", "logger", name="pk_sent_metrics"),
    )


def downgrade() -> None:
    """Drops the table."""
    op.drop_table("sent_metrics")
