"""What who follows an experiment is told each time: of its trials what has changed only."""

import dataclasses

from quintain.records.rows import experiment, trial
from quintain.records.views import master_status


@dataclasses.dataclass(frozen=True)
class Following:
    """An experiment, and what has changed of its trials since a moment."""

    cursor: str
    """The moment that this is of, to be named the next time."""

    is_whole: bool
    """Whether these are all trials, because the moment before is not known any more."""

    trials: list[trial.TrialRecord]
    """Trials that are new or have changed, by number."""

    experiment: experiment.Experiment
    """The experiment."""

    status: master_status.ExperimentStatus | None
    """What the master says of it; None if it has ended, or no master runs."""

    master: master_status.MasterSummary
    """What the master says of its machines, in numbers."""
