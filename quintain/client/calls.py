"""Read interface of the platform, for a master over HTTP and for its store alike."""

import abc
import pathlib
from collections.abc import Sequence
from typing import Any

from quintain.records.config import provenance
from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import log, metric, states
from quintain.records.rows import trial as trial_lib
from quintain.records.views import following, importance, master_status, trial_table


class Calls(abc.ABC):
    """Reads experiments, trials and checkpoints; raises `NotFoundError` for what is not there."""

    @abc.abstractmethod
    def get_status(self) -> master_status.MasterStatus:
        """Returns what runs where."""

    @abc.abstractmethod
    def list_experiments(
        self,
        *,
        include_archived: bool = False,
        state_names: Sequence[states.ExperimentState] = (),
        labels: Sequence[str] = (),
    ) -> list[experiment_lib.Experiment]:
        """Returns experiments, by number.

        Args:
            include_archived: Whether archived ones are among them.
            state_names: Only those in one of these states; all if empty.
            labels: Only those that have all of these labels.
        """

    @abc.abstractmethod
    def get_experiment(self, experiment_id: int) -> experiment_lib.Experiment:
        """Returns an experiment."""

    @abc.abstractmethod
    def follow(self, experiment_id: int, cursor: str = "") -> following.Following:
        """Returns an experiment, and the trials that have changed since it was asked last.

        Args:
            experiment_id: The experiment.
            cursor: What the answer before has as its `cursor`; all trials are told if it is empty.
        """

    @abc.abstractmethod
    def get_provenance(self, experiment_id: int) -> provenance.Provenance:
        """Returns where an experiment comes from; `NotFoundError` also where nobody said it."""

    @abc.abstractmethod
    def list_events(self, experiment_id: int, *, after: int = 0) -> list[dict[str, Any]]:
        """Returns what happened to an experiment, in order."""

    @abc.abstractmethod
    def list_trials(
        self,
        experiment_id: int | None = None,
        *,
        state_names: Sequence[states.TrialState] = (),
    ) -> list[trial_lib.TrialRecord]:
        """Returns trials, of one experiment or of all, by number."""

    @abc.abstractmethod
    def select_trials(
        self, experiment_id: int, selection: trial_table.Selection
    ) -> list[trial_lib.TrialRecord]:
        """Returns trials of an experiment that an expression chooses, in some order."""

    @abc.abstractmethod
    def get_table(self, experiment_id: int) -> trial_table.TrialTable:
        """Returns all trials of an experiment as columns."""

    @abc.abstractmethod
    def get_importances(
        self,
        experiment_id: int,
        *,
        metric_name: str = "",
        evaluator: importance.Evaluator = importance.Evaluator.AUTO,
    ) -> importance.Importances:
        """Returns how much each hyperparameter decides about a metric.

        Args:
            experiment_id: The experiment.
            metric_name: The metric; the searched one if empty.
            evaluator: How it is measured.
        """

    @abc.abstractmethod
    def get_trial(self, trial_id: int) -> trial_lib.TrialRecord:
        """Returns a trial."""

    @abc.abstractmethod
    def list_metrics(
        self,
        trial_id: int,
        *,
        group: metric.MetricGroup | None = None,
        after_batches: int = -1,
    ) -> list[metric.MetricRow]:
        """Returns the metrics of a trial, in the order of its batches.

        Args:
            trial_id: The trial.
            group: What they are about; None for training and validation.
            after_batches: Only those of more batches.
        """

    @abc.abstractmethod
    def list_batch_metrics(
        self, trial_id: int, *, after_batches: int = -1
    ) -> list[metric.BatchRow]:
        """Returns what each batch of training reported, in order.

        Args:
            trial_id: The trial.
            after_batches: Only workloads that ended after more batches are listed.
        """

    @abc.abstractmethod
    def list_logs(self, trial_id: int, which: log.LogFilter = log.ALL) -> list[log.LogRow]:
        """Returns lines that a trial wrote, in order."""

    @abc.abstractmethod
    def list_checkpoints(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        state_names: Sequence[checkpoint_lib.CheckpointState] = (),
    ) -> list[checkpoint_lib.Checkpoint]:
        """Returns checkpoints, in the order they were saved."""

    @abc.abstractmethod
    def get_checkpoint(self, uuid: str) -> checkpoint_lib.Checkpoint:
        """Returns a checkpoint by its UUID, or by as much of its beginning as is unique."""

    @abc.abstractmethod
    def fetch_checkpoint(self, uuid: str, directory: pathlib.Path) -> list[str]:
        """Copies the files of a checkpoint into a directory and returns their paths there."""

    @abc.abstractmethod
    def fetch_model_dir(self, experiment_id: int, directory: pathlib.Path) -> list[str]:
        """Copies the code of an experiment into a directory and returns the paths there."""

    @abc.abstractmethod
    def list_orphans(self) -> list[checkpoint_lib.Orphan]:
        """Returns the directories among the checkpoints that the store does not know."""
