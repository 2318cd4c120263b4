"""Workloads of a trial's process, and their results."""

import dataclasses
import enum
from typing import Any


class WorkloadKind(enum.StrEnum):
    """Kinds of workloads."""

    TRAIN = "TRAIN"
    """Train on some batches and report the metrics."""

    VALIDATE = "VALIDATE"
    """Go through the validation data once and report the metrics."""

    CHECKPOINT = "CHECKPOINT"
    """Save everything that the trial needs to go on."""

    TERMINATE = "TERMINATE"
    """End the process in order."""


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """One piece of work."""

    kind: WorkloadKind
    experiment_id: int
    trial_id: int
    number: int
    """Counts the workloads of the trial from 1; a repeated one has the number of the first."""

    num_batches: int = 0
    """Batches to train on; 0 unless it is `TRAIN`."""

    total_batches: int = 0
    """Batches the trial has trained on before this workload."""

    following: "tuple[Workload, ...]" = ()
    """With `CHECKPOINT`: what will be asked after it, unless the trial ends or is paused; a process
    may do it while the checkpoint is uploaded."""


class ExitedReason(enum.StrEnum):
    """Reasons of a trial to end before it was told to."""

    ERRORED = "errored"
    ERRORED_AT_START = "errored_at_start"
    """The same before the first batch was done, which points to a mistake in the code or data."""
    USER_CANCELED = "user_canceled"
    INVALID_HP = "invalid_hp"
    UNUSABLE = "unusable"
    """The user's code or config can't be run; starting it again is no use."""


@dataclasses.dataclass(frozen=True)
class WorkloadResult:
    """Result of a workload."""

    workload: Workload
    """What was asked."""

    start_time: float
    """Seconds since the epoch."""

    end_time: float
    """The same, later by what the workload took, whatever happened to the clock meanwhile."""

    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Training: means over the batches. Validation: the metrics."""

    batch_metrics: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Training: the metrics of each batch."""

    num_inputs: int = 0
    checkpoint: "StoredCheckpoint | None" = None
    """Where the checkpoint is."""

    exited_reason: ExitedReason | None = None
    """Set if the trial does not want to go on after this."""


@dataclasses.dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint as the storage knows it."""

    uuid: str
    """Name of its directory."""

    files: dict[str, int] = dataclasses.field(default_factory=dict)
    """Sizes in bytes by path within the directory; directories end in `/`."""
