"""Names the home that a database is of, and notes deletions before they begin."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | Sequence[str] | None = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes both tables."""
    op.create_table("home", sa.Column("home_id", sa.String(64), primary_key=True))
    op.create_table(
        "deletions",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("root", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
    )


def downgrade() -> None:
    """Drops both tables."""
    op.drop_table("deletions")
    op.drop_table("home")
