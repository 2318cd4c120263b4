"""Commands of users to the master."""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.config import overrides as overrides_lib
from quintain.config import yaml_io
from quintain.master import (
    checkpoint_gc,
    earlier_trials,
    entries,
    new_experiments,
    orphans,
    scheduling,
    shared_state,
)
from quintain.master.models import model_registry
from quintain.records.config import experiment_spec, provenance, searcher_config
from quintain.records.rows import checkpoint, experiment, registered_model, states, trial
from quintain.search import searcher
from quintain.search import space as space_lib
from quintain.store import session as session_lib

_GC_FIELDS: Final = ("save_experiment_best", "save_trial_best", "save_trial_latest")


_ARCHIVING: Final = ("archive", "unarchive")
_COMMANDS: Final = (*states.COMMANDS, *_ARCHIVING)


class Commands:
    """Commands of users on experiments. All methods may be called from several threads."""

    def __init__(
        self,
        shared: shared_state.SharedState,
        processes: scheduling.Scheduling,
        check_change: new_experiments.ConfigCheck = new_experiments.allow_change,
    ) -> None:
        self._shared = shared
        self._processes = processes
        self._check = check_change

    def restricted_by(self, check_change: new_experiments.ConfigCheck) -> "Commands":
        """Returns the same commands for somebody who may not change all of a config."""
        return Commands(self._shared, self._processes, check_change)

    # New experiments.

    def create_experiment(
        self,
        config_text: str,
        model_dir: pathlib.Path | None,
        *,
        source: str = "config",
        overrides: Sequence[str] = (),
        parent_id: int | None = None,
        activate: bool = True,
        origin: provenance.Provenance | None = None,
    ) -> experiment.Experiment:
        """Creates an experiment and copies the user's code.

        Args:
            config_text: The config, as YAML.
            model_dir: Directory with the user's code, or None if there is none. What
                `.quintainignore` or `.detignore` names in it is left out.
            source: Name of the config, for messages.
            overrides: `path=value` each; they win over the config.
            parent_id: Experiment that it was forked from.
            activate: Whether it starts at once; else it is paused.
            origin: Where it comes from; None if nobody said it.

        Raises:
            ConfigError: Listing all that is wrong.
        """
        content = self.read_content(config_text, overrides, source, None)
        return new_experiments.create(
            self._shared,
            new_experiments.build_config(content),
            config_text,
            model_dir,
            parent_id=parent_id,
            activate=activate,
            origin=origin,
        )

    def rerun_trial(self, trial_id: int) -> experiment.Experiment:
        """Creates an experiment of one trial, with the hyperparameters and seed of this one."""
        return new_experiments.rerun(self._shared, trial_id)

    def continue_trial(self, trial_id: int, overrides: Sequence[str]) -> experiment.Experiment:
        """Creates an experiment of one trial that begins with the newest checkpoint of this one.

        Raises:
            ConfigError: If there is no such checkpoint, or an override is wrong.
        """
        return new_experiments.continue_trial(self._shared, trial_id, overrides, self._check)

    def fork_experiment(
        self, experiment_id: int, config_text: str | None, overrides: Sequence[str]
    ) -> experiment.Experiment:
        """Creates an experiment from another one's code, and its config unless one is given."""
        owner = self._record(experiment_id)
        source = f"experiment {experiment_id}"
        content = self.read_content(config_text, overrides, source, experiment_id)
        return new_experiments.create(
            self._shared,
            new_experiments.build_config(content),
            owner.original_config if config_text is None else config_text,
            pathlib.Path(owner.model_dir),
            parent_id=experiment_id,
            origin=new_experiments.inherit_provenance(owner),
        )

    def rewind_experiment(
        self,
        experiment_id: int,
        to_trial: int,
        searcher: str,
        space_text: str | None,
        overrides: Sequence[str],
    ) -> experiment.Experiment:
        """Creates an experiment that shares the trials of another one up to one of them.

        Args:
            experiment_id: The other one.
            to_trial: The last trial that is shared.
            searcher: Another search method; the same one if empty.
            space_text: Other hyperparameters, as YAML; the same ones if None.
            overrides: `path=value` each; they win over the config.

        Raises:
            ConfigError: If the method can't go on, or the space lacks values of shared trials.
            StateError: If there is no such trial, or it has no result.
        """
        owner = self._record(experiment_id)
        space = None
        if space_text is not None:
            space = new_experiments.read_content(space_text, "space")
            space = space.get("hyperparameters", space)
        with self._shared.store.reading() as session:
            content = earlier_trials.build_rewound(
                session, owner, to_trial, searcher=searcher, space=space
            )
        content = new_experiments.override(content, overrides)
        self._check(owner.config, content)
        return new_experiments.create(
            self._shared,
            new_experiments.build_config(content),
            yaml_io.dump(content),
            pathlib.Path(owner.model_dir),
            parent_id=experiment_id,
            origin=new_experiments.inherit_provenance(owner),
        )

    def read_content(
        self, config_text: str | None, overrides: Sequence[str], source: str, parent_id: int | None
    ) -> dict[str, Any]:
        """Reads what is written in the config that a new experiment would have.

        Args:
            config_text: The config, as YAML; that of the parent if None.
            overrides: `path=value` each; they win over the config.
            source: Name of the config, for messages.
            parent_id: Experiment whose code it would have, or None.

        Raises:
            ConfigError: If a text can't be read, or the change is not valid.
        """
        former = "{}" if parent_id is None else self._record(parent_id).original_config
        if config_text is None:
            config_text, source = former, f"experiment {parent_id}"
        content = new_experiments.read_content(config_text, source, overrides)
        self._check(new_experiments.read_content(former, source), content)
        return content

    # Experiments that are there.

    def apply(self, experiment_id: int, command: str) -> experiment.Experiment:
        """Pauses, activates, cancels, kills, archives or unarchives an experiment.

        A trial of an experiment that is paused or canceled finishes its workload, saves itself, and
        gives back its slots. One that is killed ends at once, and what is not saved is lost.

        Raises:
            NotFoundError: If there is no such command.
            StateError: If that is not possible now; the message says what is.
        """
        if command in states.COMMANDS:
            return self._steer(experiment_id, command)
        if command in _ARCHIVING:
            return self._set_archived(experiment_id, is_archived=command == "archive")
        raise errors.NotFoundError(
            f"There is no command {command!r}. Choose one of {', '.join(_COMMANDS)}."
        )

    def _steer(self, experiment_id: int, name: str) -> experiment.Experiment:
        shared = self._shared
        with shared.condition:
            record = self._record(experiment_id)
            if record.state.is_terminal:
                if name in ("cancel", "kill") and record.state is states.ExperimentState.CANCELED:
                    return record
                raise errors.StateError(
                    f"Experiment {experiment_id} has ended ({record.state.value}) and can't be "
                    f"asked to {name}; it may be archived, deleted, forked or continued."
                )
            entry = shared.entry(experiment_id)
            entry.machine.check(name)
            with shared.failures_contained(experiment_id, f"when it was asked to {name}"):
                shared.apply(entry, {"kind": name})
                if name == "kill":
                    self._kill_launches(experiment_id)
                return entry.record
            raise errors.StateError(
                f"Experiment {experiment_id} has failed: {self._record(experiment_id).reason}"
            )

    def _set_archived(self, experiment_id: int, *, is_archived: bool) -> experiment.Experiment:
        with self._shared.condition:
            record = self._ended(experiment_id, "archived" if is_archived else "unarchived")
            record = dataclasses.replace(record, is_archived=is_archived)
            self._shared.write(lambda session: session.update_experiment(record))
            return record

    def delete_experiment(self, experiment_id: int) -> None:
        """Deletes an ended experiment with all its files.

        Raises:
            StateError: If it has not ended, or trials elsewhere start from its checkpoints, or
                registered models point at them.
        """
        shared = self._shared
        with shared.condition:
            record = self._ended(experiment_id, "deleted")
            with shared.store.reading() as session:
                checkpoints = session.list_checkpoints(experiment_id=experiment_id)
            uuids = {each.uuid for each in checkpoints}
            self._check_unregistered(f"Experiment {experiment_id}", uuids)
            used = shared.find_needed() & uuids
            if used:
                raise errors.StateError(
                    f"Experiment {experiment_id} can't be deleted: trials that have not ended "
                    f"start from its checkpoints {', '.join(sorted(used))}. Cancel these first."
                )
            notes = shared.note_directories(record, [each.uuid for each in checkpoints])

            def write(session: session_lib.Session) -> None:
                session.add_deletions(notes)
                session.delete_experiment(experiment_id)

            shared.write(write)
        shared.deletions.run()

    def delete_checkpoint(self, uuid: str) -> checkpoint.Checkpoint:
        """Deletes the files of a checkpoint; returns its record.

        Raises:
            StateError: If a trial that has not ended goes on from it, or a registered model points
                at it.
        """
        shared = self._shared
        with shared.condition:
            with shared.store.reading() as session:
                record = session.get_checkpoint(uuid)
            self._check_unregistered(f"Checkpoint {uuid}", {uuid})
            if uuid in shared.find_needed():
                raise errors.StateError(
                    f"Checkpoint {uuid} can't be deleted: a trial that has not ended goes on from "
                    "it. Cancel that one first."
                )
            checkpoint_gc.let_go(shared, {record.experiment_id: [record]})
        shared.deletions.run()
        return dataclasses.replace(record, state=checkpoint.CheckpointState.DELETED)

    def adopt_orphan(self, name: str) -> checkpoint.Checkpoint:
        """Gives a checkpoint that the store does not know to the experiment that it names.

        Raises:
            NotFoundError: If there is none of this name.
            CheckpointError: If it is damaged, or the store does not have what it names.
        """
        return orphans.adopt(self._shared, name)

    def delete_orphan(self, name: str) -> checkpoint.Orphan:
        """Deletes a directory among the checkpoints that the store does not know.

        Raises:
            NotFoundError: If there is none of this name.
        """
        return orphans.delete(self._shared, name)

    def register_model(
        self, name: str, *, checkpoint: str, alias: str, note: str
    ) -> registered_model.ModelVersion:
        """Registers a checkpoint as a new version; see `model_registry.register_checkpoint`."""
        return model_registry.register_checkpoint(
            self._shared, name, checkpoint, alias=alias, note=note
        )

    def register_path(
        self, name: str, *, receipt: registered_model.Receipt, alias: str, note: str
    ) -> registered_model.ModelVersion:
        """Registers a directory as a new version; see `model_registry.register_path`."""
        return model_registry.register_path(self._shared, name, receipt, alias=alias, note=note)

    def promote_model(
        self, name: str, version: int, alias: str, **rule: Any
    ) -> registered_model.RegisteredModel:
        """Lets an alias name a version, if a rule allows it; see `model_registry.promote`."""
        return model_registry.promote(self._shared, name, version, alias, **rule)

    def delete_model(
        self, name: str, version: int, *, with_aliases: bool
    ) -> registered_model.ModelVersion:
        """Deletes a version of a model; see `model_registry.delete`."""
        return model_registry.delete(self._shared, name, version, with_aliases=with_aliases)

    def kill_trial(self, trial_id: int) -> trial.TrialRecord:
        """Ends a trial at once; the search goes on without it.

        Raises:
            StateError: If it has ended by itself.
        """
        shared = self._shared
        with shared.condition:
            with shared.store.reading() as session:
                former = session.get_trial(trial_id)
            if former.state is states.TrialState.CANCELED:
                return former
            if former.state.is_terminal:
                raise errors.StateError(f"Trial {trial_id} has ended ({former.state.value}).")
            entry = shared.entry(former.experiment_id)
            request_id = entry.request_ids[trial_id]
            shared.apply(entry, {"kind": "kill_trial", "request_id": request_id})
            if trial_id in shared.launches_by_trial:
                self._processes.kill(shared.launches_by_trial[trial_id])
            return dataclasses.replace(entry.build_trial_record(request_id), note=former.note)

    def note_trial(self, trial_id: int, note: str) -> trial.TrialRecord:
        """Replaces the user's note of a trial, whatever it does.

        Raises:
            NotFoundError: If there is no such trial.
        """
        noted: list[trial.TrialRecord] = []
        with self._shared.condition:
            self._shared.write(lambda session: noted.append(session.set_trial_note(trial_id, note)))
        return noted[0]

    def continue_experiment(
        self, experiment_id: int, overrides: Sequence[str]
    ) -> experiment.Experiment:
        """Takes up an ended experiment again, under the same number.

        Trials that its end interrupted go on from their last checkpoints. Where the search method
        trains each trial by itself (`single`, `random`, `grid`), trials that failed get their
        restarts anew; and if `searcher.max_length` is raised, all trials are trained further. With
        nothing but more trials (`searcher.max_trials`), it need not have ended.

        Raises:
            StateError: If it has not ended, nothing can go on, or the search can't go on with
                what `overrides` change.
        """
        match new_experiments.override({}, overrides):
            case {"searcher": {"max_trials": int(max_trials), **rest}, **others} if not (
                rest or others
            ):
                return self.update_experiment(experiment_id, {"max_trials": max_trials})
        shared = self._shared
        with shared.condition:
            record = self._ended(experiment_id, "continued")
            content = new_experiments.override(record.config, overrides)
            config = experiment_spec.parse(content)
            self._check(record.config, content)
            former = experiment_spec.parse(record.config)
            entry = shared.load(experiment_id)
            _check_continuation(former, config)
            if not entry.machine.search.find_resumable(entry.machine.config, config):
                raise errors.StateError(
                    f"Experiment {experiment_id} has no trial to go on with. Raise "
                    "searcher.max_length to train longer, raise max_trials for more trials, or "
                    "fork it."
                )
            hparams = None
            if isinstance(config.searcher, searcher_config.SingleConfig):
                hparams = _draw_first(config, next(iter(entry.machine.trials.values())).hparams)
            plain = config.as_dict()
            event: dict[str, Any] = {"kind": "resume", "config": plain, "hparams": hparams}
            more_trials: int = getattr(config.searcher, "max_trials", 0)
            if more_trials != getattr(former.searcher, "max_trials", 0):
                entry.machine.search.check_extension(more_trials)
                event["max_trials"] = more_trials
            entry.config = config
            entry.record = dataclasses.replace(
                entry.record, config=config.as_dict(), is_archived=False
            )
            shared.entries[experiment_id] = entry
            self._reopen(entry, event)
            return entry.record

    def update_experiment(
        self, experiment_id: int, changes: experiment.Changes
    ) -> experiment.Experiment:
        """Changes what may be changed while an experiment runs, or later.

        Raises:
            ConfigError: If a value is not allowed.
            StateError: If the search can't be given more trials.
        """
        shared = self._shared
        max_trials = changes.get("max_trials")
        with shared.condition:
            record = self._record(experiment_id)
            is_ended = record.state.is_terminal
            entry = shared.load(experiment_id) if is_ended else shared.entry(experiment_id)
            if max_trials is not None:
                entry.machine.check_extension(max_trials)
            merged = overrides_lib.merge(record.config, _to_overrides(changes))
            config = experiment_spec.parse(merged)
            self._check(record.config, merged)
            updated = dataclasses.replace(
                entry.record,
                config=config.as_dict(),
                description=changes.get("description", record.description),
                labels=tuple(sorted(set(changes.get("labels", record.labels)))),
            )
            if max_trials is not None:
                former = entry.record, entry.config
                entry.record, entry.config = updated, config
                shared.entries[experiment_id] = entry
                try:
                    self._reopen(entry, {"kind": "extend", "max_trials": max_trials})
                except Exception:
                    entry.record, entry.config = former
                    raise
            else:
                shared.write(lambda session: session.update_experiment(updated))
                entry.record, entry.config = updated, config
            if changes.get("checkpoint_storage") and entry.record.state.is_terminal:
                checkpoint_gc.collect_ended(shared, entry)
            shared.notify()
            return entry.record

    def _reopen(self, entry: entries.Entry, event: dict[str, Any]) -> None:
        """Applies an event that also changes the config, and may open an ended experiment."""
        shared, record = self._shared, entry.record
        try:
            shared.apply(entry, event, lambda session: session.update_experiment(entry.record))
        except Exception:
            if record.state.is_terminal:
                shared.entries.pop(entry.id, None)
            raise

    def _kill_launches(self, experiment_id: int) -> None:
        for live in list(self._shared.launches_by_trial.values()):
            if live.record.experiment_id == experiment_id:
                self._processes.kill(live)

    def _check_unregistered(self, what: str, uuids: Collection[str]) -> None:
        with self._shared.store.reading() as session:
            registered = session.find_registered()
        named = sorted(registered[uuid] for uuid in registered.keys() & uuids)
        if named:
            raise errors.StateError(
                f"{what} can't be deleted: registered models point at it: {', '.join(named)}. "
                "Delete these first (`quintain model delete`)."
            )

    def _record(self, experiment_id: int) -> experiment.Experiment:
        with self._shared.store.reading() as session:
            return session.get_experiment(experiment_id)

    def _ended(self, experiment_id: int, what: str) -> experiment.Experiment:
        record = self._record(experiment_id)
        if not record.state.is_terminal:
            raise errors.StateError(
                f"Experiment {experiment_id} is {record.state.value}; only an ended one can be "
                f"{what}. Cancel it, or wait for its end."
            )
        return record


def _check_continuation(
    former: experiment_spec.ExperimentSpec, config: experiment_spec.ExperimentSpec
) -> None:
    """Checks that a search can go on with a changed config.

    Raises:
        StateError: If it can't.
    """
    is_single = isinstance(config.searcher, searcher_config.SingleConfig)
    old, new = former.as_dict(), config.as_dict()
    fixed = {
        "searcher.name": (former.searcher.name, config.searcher.name),
        "searcher.method": (old["searcher"].get("method"), new["searcher"].get("method")),
        "searcher.metric": (former.searcher.metric, config.searcher.metric),
        "reproducibility": (old["reproducibility"], new["reproducibility"]),
    }
    if not is_single:
        fixed["hyperparameters"] = (old["hyperparameters"], new["hyperparameters"])
    for path, (before, after) in fixed.items():
        if before != after:
            raise errors.StateError(
                f"{path}: an experiment can't go on with another value ({after!r} instead of "
                f"{before!r}); fork it."
            )


def _draw_first(config: experiment_spec.ExperimentSpec, former: dict[str, Any]) -> dict[str, Any]:
    """Returns the hyperparameters of the one trial of a `single` search."""
    seed = config.reproducibility.experiment_seed
    if seed is None:
        return former
    space = space_lib.Space.parse(config.hyperparameters)
    return dict(space.sample(searcher.new_random(seed)))


def _to_overrides(changes: experiment.Changes) -> dict[str, Any]:
    """Returns changes as parts of the config.

    Raises:
        ConfigError: If a field of the storage of checkpoints can't be changed.
    """
    overrides: dict[str, Any] = {}
    for name, value in changes.items():
        if name in ("weight", "max_slots", "priority"):
            # The config has no number for "no limit".
            is_unlimited = name == "max_slots" and value == 0
            overrides.setdefault("resources", {})[name] = None if is_unlimited else value
        elif name == "max_trials":
            overrides["searcher"] = {name: value}
        else:
            overrides[name] = value
    if "labels" in changes:
        overrides["labels"] = sorted(set(changes["labels"]))
    _check_gc_fields(changes.get("checkpoint_storage", {}))
    return overrides


def _check_gc_fields(given: Mapping[str, int]) -> None:
    for name in given:
        if name not in _GC_FIELDS:
            raise errors.ConfigError(
                f"checkpoint_storage.{name}: can't be changed, expected one of "
                f"{', '.join(_GC_FIELDS)}.{errors.suggest(name, _GC_FIELDS)}"
            )
