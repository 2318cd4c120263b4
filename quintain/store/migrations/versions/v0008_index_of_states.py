"""Lets the trials of an experiment be counted by their states without all being read."""

from collections.abc import Sequence

from alembic import op

revision: str = "0008"
down_revision: str | Sequence[str] | None = "0007"
branch_labels = None
depends_on = None

_NAME = "ix_trials_experiment_id_state_id_best_metric"


def upgrade() -> None:
    """Makes the index."""
    op.create_index(_NAME, "trials", ["experiment_id", "state", "id", "best_metric"])


def downgrade() -> None:
    """Drops it."""
    op.drop_index(_NAME, "trials")
