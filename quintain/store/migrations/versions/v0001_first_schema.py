"""The first schema."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | Sequence[str] | None = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes all tables."""
    op.create_table(
        "experiments",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("original_config", sa.Text(), nullable=False),
        sa.Column("model_dir", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.Column("start_time", sa.Double(), nullable=False),
        sa.Column("end_time", sa.Double()),
        sa.Column("is_archived", sa.Boolean(), nullable=False),
        sa.Column("parent_id", sa.Integer()),
        sa.Column("reason", sa.Text(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "experiment_id",
            sa.Integer(),
            sa.ForeignKey("experiments.id", ondelete="CASCADE", name="fk_events_experiment_id"),
            nullable=False,
        ),
        sa.Column("event", sa.Text(), nullable=False),
    )
    op.create_index("ix_events_experiment_id", "events", ["experiment_id"])
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "experiment_id",
            sa.Integer(),
            sa.ForeignKey("experiments.id", ondelete="CASCADE", name="fk_trials_experiment_id"),
            nullable=False,
        ),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("hparams", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("parent_trial_id", sa.Integer()),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("total_batches", sa.BigInteger(), nullable=False),
        sa.Column("latest_checkpoint", sa.String(64)),
        sa.Column("best_metric", sa.Double()),
        sa.Column("latest_metric", sa.Double()),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.Column("start_time", sa.Double()),
        sa.Column("end_time", sa.Double()),
        sa.Column("reason", sa.Text(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_trials_experiment_id", "trials", ["experiment_id"])
    op.create_table(
        "batch_metrics",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "trial_id",
            sa.Integer(),
            sa.ForeignKey("trials.id", ondelete="CASCADE", name="fk_batch_metrics_trial_id"),
            nullable=False,
        ),
        sa.Column("total_batches", sa.BigInteger(), nullable=False),
        sa.Column("batch_metrics", sa.Text(), nullable=False),
    )
    op.create_index(
        "ix_batch_metrics_trial_id_total_batches", "batch_metrics", ["trial_id", "total_batches"]
    )
    op.create_table(
        "checkpoints",
        sa.Column("uuid", sa.String(64), primary_key=True),
        sa.Column(
            "trial_id",
            sa.Integer(),
            sa.ForeignKey("trials.id", ondelete="CASCADE", name="fk_checkpoints_trial_id"),
            nullable=False,
        ),
        sa.Column(
            "experiment_id",
            sa.Integer(),
            sa.ForeignKey(
                "experiments.id", ondelete="CASCADE", name="fk_checkpoints_experiment_id"
            ),
            nullable=False,
        ),
        sa.Column("total_batches", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("metric", sa.Double()),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
    )
    op.create_index("ix_checkpoints_experiment_id", "checkpoints", ["experiment_id"])
    op.create_index("ix_checkpoints_trial_id", "checkpoints", ["trial_id"])
    op.create_table(
        "logs",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "trial_id",
            sa.Integer(),
            sa.ForeignKey("trials.id", ondelete="CASCADE", name="fk_logs_trial_id"),
            nullable=False,
        ),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("source", sa.String(32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
    )
    op.create_index("ix_logs_trial_id_id", "logs", ["trial_id", "id"])
    op.create_table(
        "metrics",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "trial_id",
            sa.Integer(),
            sa.ForeignKey("trials.id", ondelete="CASCADE", name="fk_metrics_trial_id"),
            nullable=False,
        ),
        sa.Column("group", sa.String(32), nullable=False),
        sa.Column("total_batches", sa.BigInteger(), nullable=False),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.Column("num_inputs", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
    )
    op.create_index("ix_metrics_trial_id_total_batches", "metrics", ["trial_id", "total_batches"])
    op.create_table(
        "runs",
        sa.Column("launch_id", sa.String(64), primary_key=True),
        sa.Column(
            "trial_id",
            sa.Integer(),
            sa.ForeignKey("trials.id", ondelete="CASCADE", name="fk_runs_trial_id"),
            nullable=False,
        ),
        sa.Column(
            "experiment_id",
            sa.Integer(),
            sa.ForeignKey("experiments.id", ondelete="CASCADE", name="fk_runs_experiment_id"),
            nullable=False,
        ),
        sa.Column("slots", sa.Text(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("identity", sa.Text()),
        sa.Column("start_time", sa.Double(), nullable=False),
    )
    op.create_index("ix_runs_experiment_id", "runs", ["experiment_id"])
    op.create_index("ix_runs_trial_id", "runs", ["trial_id"])


def downgrade() -> None:
    """Drops all tables."""
    for name in (
        "runs",
        "metrics",
        "logs",
        "checkpoints",
        "batch_metrics",
        "trials",
        "events",
        "experiments",
    ):
        op.drop_table(name)
