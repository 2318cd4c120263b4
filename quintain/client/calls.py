"""Read interface of the platform, for a master over HTTP and for its store alike.

Each is declared once, by a function without a body; see `call_table`.
"""

# Declarations have no bodies; `call` gives them one.
# mypy: disable-error-code="empty-body"
# ruff: noqa: B027

from __future__ import annotations

import abc
import pathlib
from collections.abc import Sequence
from typing import Any, Final

from quintain.client.call_table import Secret, call
from quintain.records import config as configs
from quintain.records import rows as kinds
from quintain.records import team, views

_COMMAND_SECS: Final = 600.0
"""Seconds to wait for a command: one that copies code or deletes checkpoints takes a while."""


class Calls(abc.ABC):
    """Reads experiments, trials and checkpoints; raises `NotFoundError` for what is not there."""

    @call("GET", "/master/status")
    def get_status(self) -> views.master_status.MasterStatus:
        """Returns what runs where."""

    @call("GET", "/experiments", state_names="state", labels="label", projects="project")
    def list_experiments(
        self,
        *,
        include_archived: bool = False,
        state_names: Sequence[kinds.states.ExperimentState] = (),
        labels: Sequence[str] = (),
        projects: Sequence[str] = (),
    ) -> list[kinds.experiment.Experiment]:
        """Returns experiments, by number.

        Args:
            include_archived: Whether archived ones are among them.
            state_names: Only those in one of these states; all if empty.
            labels: Only those that have all of these labels.
            projects: Only those of these projects; all if empty.
        """

    @call("GET", "/experiments/{experiment_id}")
    def get_experiment(self, experiment_id: int) -> kinds.experiment.Experiment:
        """Returns an experiment."""

    @call("GET", "/experiments/{experiment_id}/following")
    def follow(self, experiment_id: int, cursor: str = "") -> views.following.Following:
        """Returns an experiment, and the trials that have changed since it was asked last.

        Args:
            experiment_id: The experiment.
            cursor: What the answer before has as its `cursor`; all trials are told if it is empty.
        """

    @call("GET", "/experiments/{experiment_id}/best")
    def list_best(self, experiment_id: int, *, top: int = 10) -> list[views.seeds.Standing]:
        """Returns the best settings of an experiment, the best first; see `seeds.rank_settings`.

        Args:
            experiment_id: The experiment.
            top: How many.
        """

    @call("GET", "/experiments/{experiment_id}/provenance")
    def get_provenance(self, experiment_id: int) -> configs.provenance.Provenance:
        """Returns where an experiment comes from; `NotFoundError` also where nobody said it."""

    @call("GET", "/experiments/{experiment_id}/events")
    def list_events(self, experiment_id: int, *, after: int = 0) -> list[dict[str, Any]]:
        """Returns what happened to an experiment, in order."""

    @call("GET", "/trials", state_names="state")
    def list_trials(
        self,
        experiment_id: int | None = None,
        *,
        state_names: Sequence[kinds.states.TrialState] = (),
    ) -> list[kinds.trial.TrialRecord]:
        """Returns trials, of one experiment or of all, by number."""

    @call("GET", "/experiments/{experiment_id}/trials")
    def select_trials(
        self, experiment_id: int, selection: views.trial_table.Selection
    ) -> list[kinds.trial.TrialRecord]:
        """Returns trials of an experiment that an expression chooses, in some order."""

    @call("GET", "/experiments/{experiment_id}/table")
    def get_table(self, experiment_id: int) -> views.trial_table.TrialTable:
        """Returns all trials of an experiment as columns."""

    @call("GET", "/experiments/{experiment_id}/importance", metric_name="metric")
    def get_importances(
        self,
        experiment_id: int,
        *,
        metric_name: str = "",
        evaluator: views.importance.Evaluator = views.importance.Evaluator.AUTO,
    ) -> views.importance.Importances:
        """Returns how much each hyperparameter decides about a metric.

        Args:
            experiment_id: The experiment.
            metric_name: The metric; the searched one if empty.
            evaluator: How it is measured.
        """

    @call("GET", "/trials/{trial_id}")
    def get_trial(self, trial_id: int) -> kinds.trial.TrialRecord:
        """Returns a trial."""

    @call("GET", "/trials/{trial_id}/metrics")
    def list_metrics(
        self,
        trial_id: int,
        *,
        group: kinds.metric.MetricGroup | None = None,
        after_batches: int = -1,
    ) -> list[kinds.metric.MetricRow]:
        """Returns the metrics of a trial, in the order of its batches.

        Args:
            trial_id: The trial.
            group: What they are about; None for training and validation.
            after_batches: Only those of more batches.
        """

    @call("GET", "/trials/{trial_id}/batch_metrics")
    def list_batch_metrics(
        self, trial_id: int, *, after_batches: int = -1
    ) -> list[kinds.metric.BatchRow]:
        """Returns what each batch of training reported, in order.

        Args:
            trial_id: The trial.
            after_batches: Only workloads that ended after more batches are listed.
        """

    @call("GET", "/trials/{trial_id}/logs")
    def list_logs(
        self, trial_id: int, which: kinds.log.LogFilter = kinds.log.ALL
    ) -> list[kinds.log.LogRow]:
        """Returns lines that a trial wrote, in order."""

    @call("GET", "/checkpoints", state_names="state")
    def list_checkpoints(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        state_names: Sequence[kinds.checkpoint.CheckpointState] = (),
    ) -> list[kinds.checkpoint.Checkpoint]:
        """Returns checkpoints, in the order they were saved."""

    @call("GET", "/checkpoints/{uuid}")
    def get_checkpoint(self, uuid: str) -> kinds.checkpoint.Checkpoint:
        """Returns a checkpoint by its UUID, or by as much of its beginning as is unique."""

    @call("GET", "/models")
    def list_models(self) -> list[kinds.registered_model.RegisteredModel]:
        """Returns registered models by name; versions without files, configs and origins."""

    @call("GET", "/models/{name}")
    def get_model(self, name: str) -> kinds.registered_model.RegisteredModel:
        """Returns a registered model with all that is kept of its versions."""

    @call("GET", "/audit", user_name="user")
    def get_audit(
        self,
        *,
        experiment_id: int | None = None,
        user_name: str = "",
        since: float | None = None,
        limit: int = 1000,
    ) -> list[team.AuditEntry]:
        """Returns who changed what, the newest changes in their order.

        Args:
            experiment_id: Only those of this experiment, which may be deleted.
            user_name: Only those by this user; by all if empty.
            since: Seconds since the epoch; only those not before.
            limit: Most of them.
        """

    @abc.abstractmethod
    def fetch_checkpoint(self, uuid: str, directory: pathlib.Path) -> list[str]:
        """Copies the files of a checkpoint into a directory and returns their paths there."""

    @abc.abstractmethod
    def fetch_model_dir(self, experiment_id: int, directory: pathlib.Path) -> list[str]:
        """Copies the code of an experiment into a directory and returns the paths there."""

    @call("GET", "/checkpoints/orphans")
    def list_orphans(self) -> list[kinds.checkpoint.Orphan]:
        """Returns the directories among the checkpoints that the store does not know."""


class MasterCalls(Calls):
    """Also gives commands to a master; raises `StateError` where the state does not allow them."""

    @call("GET", "/master")
    def get_info(self) -> views.master_status.MasterInfo:
        """Returns which master answers."""

    @call("GET", "/master/summary")
    def get_summary(self) -> views.master_status.MasterSummary:
        """Returns the status in numbers, which is quick however many slots there are."""

    @call("POST", "/master/stop", status=202, timeout_secs=_COMMAND_SECS)
    def stop_master(self, *, drain: bool = True) -> views.master_status.MasterInfo:
        """Asks the master to stop, at once; with `drain`, once trials have saved themselves."""

    # Experiments.

    @call("POST", "/experiments", status=201, timeout_secs=_COMMAND_SECS, origin="provenance")
    def create_experiment(
        self,
        config_text: Secret[str],
        model_dir: pathlib.Path | None = None,
        *,
        upload: str | None = None,
        source: str = "config",
        overrides: Secret[Sequence[str]] = (),
        parent_id: int | None = None,
        activate: bool = True,
        origin: Secret[configs.provenance.Provenance | None] = None,
    ) -> kinds.experiment.Experiment:
        """Creates an experiment.

        Args:
            config_text: The config as YAML.
            model_dir: The user's code, which is copied; None if it needs none.
            upload: The code in place of a directory: SHA-256 of the archive that was sent.
            source: Name of the config for messages.
            overrides: `path=value` texts that win over the config.
            parent_id: Experiment it was forked from.
            activate: Whether it starts at once; paused otherwise.
            origin: Where it comes from; None if nobody says it.

        Raises:
            ConfigError: Listing all that is wrong.
        """

    @call("GET", "/uploads/{name}")
    def count_upload(self, name: str) -> dict[str, int]:
        """Returns the bytes that are there of an archive of code, as `received`.

        Args:
            name: Its SHA-256.
        """

    # Each of them may be given twice.
    @call(
        "POST",
        "/experiments/{experiment_id}/{command}",
        timeout_secs=_COMMAND_SECS,
        is_repeatable=True,
    )
    def apply(self, experiment_id: int, command: str) -> kinds.experiment.Experiment:
        """Gives an experiment a command: pause, activate, cancel, kill, archive or unarchive."""

    @call(
        "DELETE",
        "/experiments/{experiment_id}",
        status=204,
        timeout_secs=_COMMAND_SECS,
        is_repeatable=False,
    )
    def delete_experiment(self, experiment_id: int) -> None:
        """Deletes an experiment that has ended, with its checkpoints."""

    @call(
        "PATCH",
        "/experiments/{experiment_id}",
        body="changes",
        timeout_secs=_COMMAND_SECS,
        is_repeatable=True,
    )
    def update_experiment(
        self, experiment_id: int, changes: kinds.experiment.Changes
    ) -> kinds.experiment.Experiment:
        """Changes what may be changed while an experiment runs."""

    @call("POST", "/experiments/{experiment_id}/fork", status=201, timeout_secs=_COMMAND_SECS)
    def fork_experiment(
        self,
        experiment_id: int,
        config_text: Secret[str | None] = None,
        overrides: Secret[Sequence[str]] = (),
    ) -> kinds.experiment.Experiment:
        """Creates an experiment from another one's code and config.

        Args:
            experiment_id: The other one.
            config_text: The config as YAML; the other one's if None.
            overrides: `path=value` texts that win over the config.
        """

    @call("POST", "/experiments/{experiment_id}/rewind", status=201, timeout_secs=_COMMAND_SECS)
    def rewind_experiment(
        self,
        experiment_id: int,
        to_trial: int,
        searcher: str = "",
        space_text: str | None = None,
        overrides: Secret[Sequence[str]] = (),
    ) -> kinds.experiment.Experiment:
        """Creates an experiment that shares the trials of another one up to one of them.

        Args:
            experiment_id: The other one.
            to_trial: The last trial that is shared.
            searcher: Another search method; the same one if empty.
            space_text: Other hyperparameters, as YAML; the same ones if None.
            overrides: `path=value` texts that win over the config.
        """

    @call("POST", "/experiments/{experiment_id}/continue", timeout_secs=_COMMAND_SECS)
    def continue_experiment(
        self, experiment_id: int, overrides: Secret[Sequence[str]] = ()
    ) -> kinds.experiment.Experiment:
        """Goes on with an experiment that has ended, with a larger budget for example."""

    # Trials.

    @call("POST", "/trials/{trial_id}/kill", timeout_secs=_COMMAND_SECS, is_repeatable=True)
    def kill_trial(self, trial_id: int) -> kinds.trial.TrialRecord:
        """Ends a trial at once; its experiment goes on."""

    @call("PATCH", "/trials/{trial_id}", timeout_secs=_COMMAND_SECS, is_repeatable=True)
    def note_trial(self, trial_id: int, note: str) -> kinds.trial.TrialRecord:
        """Replaces the user's note of a trial."""

    @call("POST", "/trials/{trial_id}/rerun", status=201, timeout_secs=_COMMAND_SECS)
    def rerun_trial(self, trial_id: int) -> kinds.experiment.Experiment:
        """Creates an experiment of one trial with the hyperparameters and seed of another."""

    @call("POST", "/trials/{trial_id}/continue", status=201, timeout_secs=_COMMAND_SECS)
    def continue_trial(
        self, trial_id: int, overrides: Secret[Sequence[str]] = ()
    ) -> kinds.experiment.Experiment:
        """Creates an experiment of one trial that begins with the newest checkpoint of another."""

    # Checkpoints.

    @call("DELETE", "/checkpoints/{uuid}", timeout_secs=_COMMAND_SECS)
    def delete_checkpoint(self, uuid: str) -> kinds.checkpoint.Checkpoint:
        """Deletes the files of a checkpoint that no trial goes on from."""

    @call("POST", "/checkpoints/orphans/{name}/adopt", timeout_secs=_COMMAND_SECS)
    def adopt_orphan(self, name: str) -> kinds.checkpoint.Checkpoint:
        """Gives an orphan to the experiment that it names.

        Raises:
            CheckpointError: If it is damaged, or the store does not have what it names.
        """

    @call("DELETE", "/checkpoints/orphans/{name}", timeout_secs=_COMMAND_SECS)
    def delete_orphan(self, name: str) -> kinds.checkpoint.Orphan:
        """Deletes an orphan."""

    # Registered models.

    @call("POST", "/models/{name}/versions", status=201, timeout_secs=_COMMAND_SECS)
    def register_model(
        self, name: str, checkpoint: str, *, alias: str = "", note: str = ""
    ) -> kinds.registered_model.ModelVersion:
        """Registers a checkpoint of a trial as a new version of a model; it is kept from then on.

        Args:
            name: The model, new or not.
            checkpoint: Its UUID.
            alias: An alias that names the version from then on; empty for none.
            note: The user's words for it.
        """

    @call("POST", "/models/{name}/paths", status=201, timeout_secs=_COMMAND_SECS)
    def register_path(
        self,
        name: str,
        receipt: Secret[kinds.registered_model.Receipt],
        *,
        alias: str = "",
        note: str = "",
    ) -> kinds.registered_model.ModelVersion:
        """Registers an export, a run or a model's file as a new version of a model.

        Args:
            name: The model, new or not.
            receipt: What it is; `records.model_receipts.read` makes it.
            alias: An alias that names the version from then on; empty for none.
            note: The user's words for it.
        """

    @call(
        "POST",
        "/models/{name}/versions/{version}/promote",
        metric_name="metric",
        timeout_secs=_COMMAND_SECS,
    )
    def promote_model(
        self,
        name: str,
        version: int,
        alias: str,
        *,
        not_worse_than: str = "",
        metric_name: str = "",
        margin: float = 0.0,
    ) -> kinds.registered_model.RegisteredModel:
        """Lets an alias name a version of a model; `StateError` if a rule forbids it.

        Args:
            name: The model.
            version: Number of the version.
            alias: The alias, new or not.
            not_worse_than: Alias or number of a version. Over trials of equal seeds, the new one
                must not be worse, with 95 % confidence; empty for no rule.
            metric_name: What is compared; the searched metric if empty.
            margin: By how much it may be worse, in units of the metric.
        """

    @call("DELETE", "/models/{name}/versions/{version}")
    def delete_model(
        self, name: str, version: int, *, with_aliases: bool = False
    ) -> kinds.registered_model.ModelVersion:
        """Deletes a version of a model; its checkpoint may be deleted then.

        Args:
            name: The model.
            version: Number of the version.
            with_aliases: Whether aliases that name it go, too; `StateError` if there are any
                otherwise.
        """

    # Machines.

    @call("GET", "/nodes")
    def list_nodes(self) -> list[kinds.node.NodeStatus]:
        """Returns the machines."""

    @call("POST", "/nodes/{name}/drain", is_repeatable=True)
    def drain_node(self, name: str) -> kinds.node.NodeStatus:
        """Lets trials of a machine save themselves and go on elsewhere, and starts none there."""

    @call("POST", "/nodes/{name}/activate", is_repeatable=True)
    def activate_node(self, name: str) -> kinds.node.NodeStatus:
        """Starts trials on a machine again."""

    # Users.

    @call("GET", "/whoami")
    def get_user(self) -> team.User:
        """Returns who asks, with their roles."""

    @call("GET", "/users")
    def list_users(self) -> list[team.User]:
        """Returns the owner, and those who have a token or a role."""

    @call("PUT", "/users/{name}/roles")
    def grant_role(
        self, name: str, role: team.Role, *, project: str = team.ALL_PROJECTS
    ) -> team.User:
        """Gives a user a role, over all projects or one, in place of the one they had there."""

    @call("DELETE", "/users/{name}/roles")
    def revoke_roles(self, name: str, *, project: str | None = None) -> team.User:
        """Takes roles from a user: that over one project, or all if it is None."""

    # The page.

    @call("POST", "/master/sign-in")
    def build_link(self, *, stays: bool = False) -> views.master_status.PageLink:
        """Returns a link that opens the page in a browser once.

        Args:
            stays: Whether it is good until it is used; otherwise for ten minutes.
        """

    @call("POST", "/master/sign-out-all", is_repeatable=True)
    def sign_out_all(self) -> None:
        """Signs all browsers out."""

    @call("POST", "/runs/folders", is_repeatable=True)
    def add_run_dirs(self, paths: Sequence[str]) -> None:
        """Shows the runs of `quintain train` below further directories, until the master ends.

        Args:
            paths: Absolute paths.
        """
