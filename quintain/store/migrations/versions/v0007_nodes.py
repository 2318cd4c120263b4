"""Keeps the numbers of the slots of other machines, and which machines processes run on."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | Sequence[str] | None = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table; so far there was only the machine of the master."""
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("slots", sa.Text, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("is_drained", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_nodes"),
    )
    op.add_column("runs", sa.Column("node", sa.Text, nullable=False, server_default=""))
    op.add_column("runs", sa.Column("others", sa.Text, nullable=False, server_default="[]"))


def downgrade() -> None:
    """Drops the table, and what processes have of it."""
    op.drop_column("runs", "others")
    op.drop_column("runs", "node")
    op.drop_table("nodes")
