"""Snapshot of an experiment, for a command that follows it."""

import dataclasses
import functools
import time

from quintain.cli import columns, output
from quintain.client import calls as calls_lib
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import states
from quintain.records.rows import trial as trial_lib
from quintain.records.views import master_status, seeds


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """An experiment with its trials and its slots."""

    experiment: experiment_lib.Experiment
    """The experiment."""

    trials: list[trial_lib.TrialRecord]
    """Its trials, by number."""

    status: master_status.ExperimentStatus | None
    """What the master says of it; None if it has ended."""

    master: master_status.MasterSummary
    """What the master says of its machines, in numbers."""

    time: float
    """Seconds since the epoch."""

    @property
    def problem(self) -> str:
        """Problem that blocks the master; None if there is none."""
        return self.master.problem

    @property
    def running(self) -> frozenset[int]:
        """Trials that hold slots."""
        return frozenset(() if self.status is None else self.status.running_trials)

    @functools.cached_property
    def work(self) -> dict[int, str]:
        """What these do."""
        found = () if self.status is None else self.status.work
        return {one.trial_id: one.doing for one in found}

    @property
    def progress(self) -> float:
        """Part of the search that is done, from 0 to 1."""
        if self.status is None or self.experiment.state.is_terminal:
            return self.experiment.progress
        return self.status.progress

    @property
    def best(self) -> trial_lib.TrialRecord | None:
        """The best trial so far."""
        return seeds.find_best(self.trials, self.searcher)

    @property
    def searcher(self) -> dict[str, object]:
        """Config of the search."""
        return dict(self.experiment.config.get("searcher", {}))

    def describe(self, trial: trial_lib.TrialRecord) -> str:
        """Returns what a trial is doing."""
        if trial.state.is_terminal:
            return trial.state.value.lower()
        if trial.id in self.work:
            return self.work[trial.id]
        if self.status is not None and trial.id in self.status.waiting_trials:
            return "waiting"
        return "paused" if self.experiment.state is states.ExperimentState.PAUSED else "idle"

    def summarize(self) -> str:
        """Returns state, progress, best metric, slots and remaining time in a line."""
        parts = [self.experiment.state.value, output.format_percent(self.progress)]
        if self.best is not None:
            parts.append(f"best {columns.describe_best(self.best, self.searcher)}")
        parts.append(f"{len(self.trials)} trial{'s' if len(self.trials) != 1 else ''}")
        if self.master.num_slots:
            experiments = self.master.experiments
            own = sum(
                each.num_slots for each in experiments if each.experiment_id == self.experiment.id
            )
            busy = self.master.num_busy_slots
            others = f" (+{busy - own} of others)" if busy > own else ""
            parts.append(f"slots {own}/{self.master.num_slots}{others}")
        if self.master.lost_nodes:
            parts.append(f"LOST: {output.format_names(self.master.lost_nodes)}")
        if self.status is not None and self.status.eta_secs is not None:
            parts.append(f"ETA {output.format_secs(self.status.eta_secs)}")
        if self.status is not None and self.status.lack:
            parts.append(f"WAITS: {self.status.lack}")
        if self.status is not None and self.status.waits_for:
            parts.append(f"WAITS: {self.status.waits_for}")
        if self.problem:
            parts.append(f"PROBLEM: {self.problem}")
        return "  ".join(parts)


class Follower:
    """Follows an experiment: asks for its trials once, and then for what has changed of them.

    Args:
        calls: Answers.
        experiment_id: The experiment.
    """

    def __init__(self, calls: calls_lib.Calls, experiment_id: int) -> None:
        self._calls = calls
        self._experiment_id = experiment_id
        self._cursor = ""
        self._trials: dict[int, trial_lib.TrialRecord] = {}

    def take(self) -> Snapshot:
        """Returns all that is shown of the experiment, as it is now."""
        found = self._calls.follow(self._experiment_id, self._cursor)
        if found.is_whole:
            self._trials.clear()
        self._trials.update({each.id: each for each in found.trials})
        self._cursor = found.cursor
        return Snapshot(
            experiment=found.experiment,
            trials=[self._trials[number] for number in sorted(self._trials)],
            status=found.status,
            master=found.master,
            time=time.time(),
        )
