"""Metrics of trials as the store keeps them."""

import dataclasses
import enum
from typing import Any


class MetricGroup(enum.StrEnum):
    """Groups of metrics, by the data that they were measured on."""

    TRAINING = "training"
    """Means over the batches of a workload."""

    VALIDATION = "validation"
    """One pass through the validation data."""

    SYSTEM = "system"
    """What the trial's process took of its machine. It is no result of training: it is listed only
    where it is asked for, and stays when a trial is rolled back."""


@dataclasses.dataclass(frozen=True)
class MetricRow:
    """All metrics of one workload."""

    trial_id: int
    group: MetricGroup
    total_batches: int
    metrics: dict[str, Any]
    """Values by name. Numbers that are not finite are the texts `NaN`, `Infinity`, `-Infinity`."""

    num_inputs: int = 0
    """Examples that were measured."""

    time: float = 0.0
    """Seconds since the epoch, when they were reported."""


@dataclasses.dataclass(frozen=True)
class BatchRow:
    """Metrics of one batch of training."""

    batch: int
    """Number of the batch in its trial, from 1."""

    metrics: dict[str, Any]
