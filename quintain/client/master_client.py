"""HTTP client of a master, for its users."""

import pathlib
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from typing_extensions import override

from quintain.client import address as address_lib
from quintain.client import calls, code_calls, node_calls, page_calls
from quintain.client import query_fields as fields_lib
from quintain.client.home import home as home_lib
from quintain.client.http import connection, transfers
from quintain.records.config import provenance
from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.rows import codec, log, metric, states
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import trial as trial_lib
from quintain.records.views import following, importance, master_status, trial_table

_PREFIX: Final = "/api/v1"
_COMMAND_SECS: Final = 600.0
"""Seconds to wait for a command: one that copies code or deletes checkpoints takes a while."""

T = TypeVar("T")


class MasterClient(calls.Calls):
    """Talks to a running master.

    Args:
        connected: Connection to the master.
    """

    def __init__(self, connected: connection.Connection) -> None:
        self._connection = connected

    @classmethod
    def connect(cls, home: home_lib.Home, address: address_lib.Address) -> Self:
        """Returns a client of the master of a home directory, also after it was restarted.

        Args:
            home: The home directory.
            address: Where its master is now.
        """

        def find() -> address_lib.Address | None:
            found = home_lib.find_master(home)
            return None if found is None else found.address

        return cls(connection.Connection(address, find_master=find))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get_info(self) -> master_status.MasterInfo:
        """Returns which master answers."""
        return self._get(master_status.MasterInfo, "/master")

    def stop_master(self, *, drain: bool = True) -> master_status.MasterInfo:
        """Asks the master to stop, at once; with `drain`, once trials have saved themselves."""
        return self._post(master_status.MasterInfo, "/master/stop", {"drain": drain})

    @property
    def page(self) -> page_calls.PageCalls:
        """What is about the page of the master."""
        return page_calls.PageCalls(self._connection)

    @property
    def nodes(self) -> node_calls.NodeCalls:
        """What is about machines."""
        return node_calls.NodeCalls(self._connection)

    @property
    def code(self) -> code_calls.CodeCalls:
        """Sends code from another machine."""
        return code_calls.CodeCalls(self._connection)

    @override
    def get_status(self) -> master_status.MasterStatus:
        return self._get(master_status.MasterStatus, "/master/status")

    def get_summary(self) -> master_status.MasterSummary:
        """Returns the status in numbers, which is quick however many slots there are."""
        return self._get(master_status.MasterSummary, "/master/summary")

    @override
    def list_experiments(
        self,
        *,
        include_archived: bool = False,
        state_names: Sequence[states.ExperimentState] = (),
        labels: Sequence[str] = (),
    ) -> list[experiment_lib.Experiment]:
        return self._get(
            list[experiment_lib.Experiment],
            "/experiments",
            include_archived=include_archived,
            state=state_names,
            label=labels,
        )

    @override
    def get_experiment(self, experiment_id: int) -> experiment_lib.Experiment:
        return self._get(experiment_lib.Experiment, f"/experiments/{experiment_id}")

    @override
    def follow(self, experiment_id: int, cursor: str = "") -> following.Following:
        path = f"/experiments/{experiment_id}/following"
        return self._get(following.Following, path, cursor=cursor)

    @override
    def get_provenance(self, experiment_id: int) -> provenance.Provenance:
        return self._get(provenance.Provenance, f"/experiments/{experiment_id}/provenance")

    @override
    def list_events(self, experiment_id: int, *, after: int = 0) -> list[dict[str, Any]]:
        return self._get(list[dict[str, Any]], f"/experiments/{experiment_id}/events", after=after)

    @override
    def list_trials(
        self,
        experiment_id: int | None = None,
        *,
        state_names: Sequence[states.TrialState] = (),
    ) -> list[trial_lib.TrialRecord]:
        return self._get(
            list[trial_lib.TrialRecord], "/trials", experiment_id=experiment_id, state=state_names
        )

    @override
    def select_trials(
        self, experiment_id: int, selection: trial_table.Selection
    ) -> list[trial_lib.TrialRecord]:
        path = f"/experiments/{experiment_id}/trials"
        return self._get(list[trial_lib.TrialRecord], path, **vars(selection))

    @override
    def get_table(self, experiment_id: int) -> trial_table.TrialTable:
        return self._get(trial_table.TrialTable, f"/experiments/{experiment_id}/table")

    @override
    def get_importances(
        self,
        experiment_id: int,
        *,
        metric_name: str = "",
        evaluator: importance.Evaluator = importance.Evaluator.AUTO,
    ) -> importance.Importances:
        return self._get(
            importance.Importances,
            f"/experiments/{experiment_id}/importance",
            metric=metric_name,
            evaluator=evaluator,
        )

    @override
    def get_trial(self, trial_id: int) -> trial_lib.TrialRecord:
        return self._get(trial_lib.TrialRecord, f"/trials/{trial_id}")

    @override
    def list_metrics(
        self,
        trial_id: int,
        *,
        group: metric.MetricGroup | None = None,
        after_batches: int = -1,
    ) -> list[metric.MetricRow]:
        return self._get(
            list[metric.MetricRow],
            f"/trials/{trial_id}/metrics",
            group=group,
            after_batches=after_batches,
        )

    @override
    def list_batch_metrics(
        self, trial_id: int, *, after_batches: int = -1
    ) -> list[metric.BatchRow]:
        return self._get(
            list[metric.BatchRow],
            f"/trials/{trial_id}/batch_metrics",
            after_batches=after_batches,
        )

    @override
    def list_logs(self, trial_id: int, which: log.LogFilter = log.ALL) -> list[log.LogRow]:
        return self._get(list[log.LogRow], f"/trials/{trial_id}/logs", **vars(which))

    @override
    def list_checkpoints(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        state_names: Sequence[checkpoint_lib.CheckpointState] = (),
    ) -> list[checkpoint_lib.Checkpoint]:
        return self._get(
            list[checkpoint_lib.Checkpoint],
            "/checkpoints",
            experiment_id=experiment_id,
            trial_id=trial_id,
            state=state_names,
        )

    @override
    def get_checkpoint(self, uuid: str) -> checkpoint_lib.Checkpoint:
        return self._get(checkpoint_lib.Checkpoint, f"/checkpoints/{_quote(uuid)}")

    @override
    def fetch_checkpoint(self, uuid: str, directory: pathlib.Path) -> list[str]:
        sizes = self.get_checkpoint(uuid).files
        return self._fetch(f"/checkpoints/{_quote(uuid)}/files", directory, sizes)

    @override
    def fetch_model_dir(self, experiment_id: int, directory: pathlib.Path) -> list[str]:
        return self._fetch(f"/experiments/{experiment_id}/files", directory)

    @override
    def list_orphans(self) -> list[checkpoint_lib.Orphan]:
        return self._get(list[checkpoint_lib.Orphan], "/checkpoints/orphans")

    # Commands. They raise `StateError` where the state does not allow them.

    def create_experiment(
        self,
        config_text: str,
        model_dir: pathlib.Path | code_calls.SentCode | None,
        *,
        source: str = "config",
        overrides: Sequence[str] = (),
        parent_id: int | None = None,
        activate: bool = True,
        origin: provenance.Provenance | None = None,
    ) -> experiment_lib.Experiment:
        """Creates an experiment.

        Args:
            config_text: The config as YAML.
            model_dir: The user's code, which is copied; None if it needs none.
            source: Name of the config for messages.
            overrides: `path=value` texts that win over the config.
            parent_id: Experiment it was forked from.
            activate: Whether it starts at once; paused otherwise.
            origin: Where it comes from; None if nobody says it.

        Raises:
            ConfigError: Listing all that is wrong.
        """
        body = {
            "config_text": config_text,
            **code_calls.to_fields(model_dir),
            "source": source,
            "overrides": list(overrides),
            "parent_id": parent_id,
            "activate": activate,
            "provenance": codec.to_plain(origin),
        }
        return self._post(experiment_lib.Experiment, "/experiments", body)

    def apply(self, experiment_id: int, command: str) -> experiment_lib.Experiment:
        """Gives an experiment a command: pause, activate, cancel, kill, archive or unarchive."""
        # Each of them may be given twice.
        return self._post(
            experiment_lib.Experiment,
            f"/experiments/{experiment_id}/{_quote(command)}",
            is_repeatable=True,
        )

    def delete_experiment(self, experiment_id: int) -> None:
        """Deletes an experiment that has ended, with its checkpoints."""
        self._connection.request(
            "DELETE",
            f"{_PREFIX}/experiments/{experiment_id}",
            timeout_secs=_COMMAND_SECS,
            is_repeatable=False,
        )

    def update_experiment(
        self, experiment_id: int, changes: experiment_lib.Changes
    ) -> experiment_lib.Experiment:
        """Changes what may be changed while an experiment runs."""
        return self._patch(experiment_lib.Experiment, f"/experiments/{experiment_id}", changes)

    def fork_experiment(
        self, experiment_id: int, config_text: str | None, overrides: Sequence[str]
    ) -> experiment_lib.Experiment:
        """Creates an experiment from another one's code and config.

        Args:
            experiment_id: The other one.
            config_text: The config as YAML; the other one's if None.
            overrides: `path=value` texts that win over the config.
        """
        return self._post(
            experiment_lib.Experiment,
            f"/experiments/{experiment_id}/fork",
            {"config_text": config_text, "overrides": list(overrides)},
        )

    def continue_experiment(
        self, experiment_id: int, overrides: Sequence[str]
    ) -> experiment_lib.Experiment:
        """Goes on with an experiment that has ended, with a larger budget for example."""
        return self._post(
            experiment_lib.Experiment,
            f"/experiments/{experiment_id}/continue",
            {"overrides": list(overrides)},
        )

    def kill_trial(self, trial_id: int) -> trial_lib.TrialRecord:
        """Ends a trial at once; its experiment goes on."""
        return self._post(trial_lib.TrialRecord, f"/trials/{trial_id}/kill", is_repeatable=True)

    def note_trial(self, trial_id: int, note: str) -> trial_lib.TrialRecord:
        """Replaces the user's note of a trial."""
        return self._patch(trial_lib.TrialRecord, f"/trials/{trial_id}", {"note": note})

    def rerun_trial(self, trial_id: int) -> experiment_lib.Experiment:
        """Creates an experiment of one trial with the hyperparameters and seed of another."""
        return self._post(experiment_lib.Experiment, f"/trials/{trial_id}/rerun")

    def continue_trial(self, trial_id: int, overrides: Sequence[str]) -> experiment_lib.Experiment:
        """Creates an experiment of one trial that begins with the newest checkpoint of another."""
        return self._post(
            experiment_lib.Experiment,
            f"/trials/{trial_id}/continue",
            {"overrides": list(overrides)},
        )

    def delete_checkpoint(self, uuid: str) -> checkpoint_lib.Checkpoint:
        """Deletes the files of a checkpoint that no trial goes on from."""
        return self._delete(checkpoint_lib.Checkpoint, f"/checkpoints/{_quote(uuid)}")

    def adopt_orphan(self, name: str) -> checkpoint_lib.Checkpoint:
        """Gives an orphan to the experiment that it names.

        Raises:
            CheckpointError: If it is damaged, or the store does not have what it names.
        """
        return self._post(checkpoint_lib.Checkpoint, f"/checkpoints/orphans/{_quote(name)}/adopt")

    def delete_orphan(self, name: str) -> checkpoint_lib.Orphan:
        """Deletes an orphan."""
        return self._delete(checkpoint_lib.Orphan, f"/checkpoints/orphans/{_quote(name)}")

    def _get(self, kind: type[T], path: str, **query: object) -> T:
        text = urllib.parse.urlencode(list(fields_lib.list_fields(query)))
        answer = self._connection.request("GET", f"{_PREFIX}{path}{'?' if text else ''}{text}")
        return codec.from_plain(kind, answer)

    def _post(
        self, kind: type[T], path: str, body: object = None, *, is_repeatable: bool = False
    ) -> T:
        answer = self._connection.request(
            "POST",
            f"{_PREFIX}{path}",
            body=body,
            timeout_secs=_COMMAND_SECS,
            is_repeatable=is_repeatable,
        )
        return codec.from_plain(kind, answer)

    def _patch(self, kind: type[T], path: str, changes: Mapping[str, Any]) -> T:
        answer = self._connection.request(
            "PATCH",
            f"{_PREFIX}{path}",
            body=codec.to_plain(changes),
            timeout_secs=_COMMAND_SECS,
            is_repeatable=True,
        )
        return codec.from_plain(kind, answer)

    def _delete(self, kind: type[T], path: str) -> T:
        answer = self._connection.request("DELETE", f"{_PREFIX}{path}", timeout_secs=_COMMAND_SECS)
        return codec.from_plain(kind, answer)

    def _fetch(
        self, path: str, directory: pathlib.Path, sizes: Mapping[str, int] | None = None
    ) -> list[str]:
        names = self._get(list[str], path)
        source = f"{_PREFIX}{path}"
        return transfers.fetch_files(self._connection, source, names, directory, sizes or {})


def _quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")
