"""Changes: what was written to the store, in order, so that a reader can follow it."""

import dataclasses
import enum
from typing import Final


class ChangeKind(enum.StrEnum):
    """Kinds of changes; `Change.ref` says which part of a thing, where there are parts."""

    EXPERIMENT = "experiment"
    """The experiment is new, or has changed."""

    EXPERIMENT_DELETED = "experiment_deleted"
    """The experiment is gone, with all that belonged to it."""

    TRIAL = "trial"
    """The trial is new, or has changed."""

    METRICS = "metrics"
    """There are new metrics; `ref` is the number of the first row."""

    CUT = "cut"
    """Metrics of more batches than `ref` were deleted: the trial was rolled back."""

    LOGS = "logs"
    """There are new lines; `ref` is the number of the first."""

    CHECKPOINT = "checkpoint"
    """A checkpoint is new, or has changed; `ref` is its UUID."""

    RUN = "run"
    """A process of the trial is new, has changed, or is gone."""

    MODEL = "model"
    """A registered model has a new, changed or promoted version; it belongs to no experiment."""


NO_EXPERIMENT: Final = 0
"""Experiment of changes that belong to none."""


@dataclasses.dataclass(frozen=True)
class Change:
    """Change of one thing. Its present state is read from where it is kept."""

    id: int
    """Number of the change, growing with time and never given again."""

    kind: ChangeKind
    experiment_id: int
    trial_id: int | None = None
    """The trial; None for changes of an experiment."""

    ref: str | None = None
    """Which part of it, as the kind says."""
