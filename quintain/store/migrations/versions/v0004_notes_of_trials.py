"""Keeps a note of the user with each trial."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | Sequence[str] | None = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; trials that are there have no note."""
    op.add_column("trials", sa.Column("note", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drops the column."""
    op.drop_column("trials", "note")
