"""What a command that follows an experiment knows of it at one moment."""

import dataclasses
import time

from quintain.cli import columns, output
from quintain.client import calls as calls_lib
from quintain.records import experiment as experiment_lib
from quintain.records import master_status, metric_order, states
from quintain.records import trial as trial_lib


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """An experiment with its trials and its slots."""

    experiment: experiment_lib.Experiment
    """The experiment."""

    trials: list[trial_lib.TrialRecord]
    """Its trials, by number."""

    status: master_status.ExperimentStatus | None
    """What the master says of it; None if it has ended."""

    slots: tuple[master_status.SlotStatus, ...]
    """All slots of the master."""

    time: float
    """Seconds since the epoch."""

    problem: str = ""
    """What keeps the master from going on, if anything does."""

    @property
    def running(self) -> frozenset[int]:
        """Trials that hold slots."""
        return frozenset(() if self.status is None else self.status.running_trials)

    @property
    def progress(self) -> float:
        """Part of the search that is done, from 0 to 1."""
        if self.status is None or self.experiment.state.is_terminal:
            return self.experiment.progress
        return self.status.progress

    @property
    def best(self) -> trial_lib.TrialRecord | None:
        """The best trial so far."""
        return metric_order.find_best(self.trials, self.searcher)

    @property
    def searcher(self) -> dict[str, object]:
        """Config of the search."""
        return dict(self.experiment.config.get("searcher", {}))

    def describe(self, trial: trial_lib.TrialRecord) -> str:
        """Returns what a trial is doing."""
        if trial.state.is_terminal:
            return trial.state.value.lower()
        if trial.id in self.running:
            return "running"
        if self.status is not None and trial.id in self.status.waiting_trials:
            return "waiting"
        return "paused" if self.experiment.state is states.ExperimentState.PAUSED else "idle"

    def summarize(self) -> str:
        """Returns state, progress, best metric, slots and remaining time in a line."""
        parts = [self.experiment.state.value, output.format_percent(self.progress)]
        if self.best is not None:
            parts.append(f"best {columns.describe_best(self.best, self.searcher)}")
        parts.append(f"{len(self.trials)} trial{'s' if len(self.trials) != 1 else ''}")
        if self.slots:
            own = sum(slot.experiment_id == self.experiment.id for slot in self.slots)
            busy = sum(slot.trial_id is not None for slot in self.slots)
            others = f" (+{busy - own} of others)" if busy > own else ""
            parts.append(f"slots {own}/{len(self.slots)}{others}")
        if self.status is not None and self.status.eta_secs is not None:
            parts.append(f"ETA {output.format_secs(self.status.eta_secs)}")
        if self.status is not None and self.status.lack:
            parts.append(f"WAITS: {self.status.lack}")
        if self.status is not None and self.status.waits_for:
            parts.append(f"WAITS: {self.status.waits_for}")
        if self.problem:
            parts.append(f"PROBLEM: {self.problem}")
        return "  ".join(parts)


def take(calls: calls_lib.Calls, experiment_id: int) -> Snapshot:
    """Asks for all that is shown of an experiment."""
    status = calls.get_status()
    # After the status: an experiment that is over then has its last trials here.
    experiment = calls.get_experiment(experiment_id)
    return Snapshot(
        experiment=experiment,
        trials=calls.list_trials(experiment_id),
        status=next(
            (one for one in status.experiments if one.experiment_id == experiment_id), None
        ),
        slots=status.slots,
        time=time.time(),
        problem=status.problem,
    )
