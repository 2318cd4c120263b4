"""Incremental updates for an experiment follower."""

import dataclasses

from quintain.records.rows import experiment, trial
from quintain.records.views import master_status


@dataclasses.dataclass(frozen=True)
class Following:
    """Update: an experiment, and the trials that have changed since a moment."""

    cursor: str
    """The moment that this is of, to be named the next time."""

    is_whole: bool
    """Whether these are all trials, because the moment before is not known any more."""

    trials: list[trial.TrialRecord]
    """Trials that are new or have changed, by number."""

    experiment: experiment.Experiment
    status: master_status.ExperimentStatus | None
    """What the master says of it; None if it has ended, or no master runs."""

    master: master_status.MasterSummary
    """What the master says of its machines, in numbers."""
