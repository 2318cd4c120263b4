"""What users ask of the master."""

import dataclasses
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.config import overrides as overrides_lib
from quintain.config import yaml_io
from quintain.records import (
    checkpoint,
    deletion,
    experiment,
    experiment_config,
    searcher_config,
    states,
    trial,
)
from quintain.scheduler import (
    checkpoint_gc,
    entries,
    experiment_machine,
    faults,
    model_files,
    scheduling,
)
from quintain.scheduler import core as core_lib
from quintain.search import search_factory, searcher
from quintain.search import space as space_lib
from quintain.store import session as session_lib

_GC_FIELDS: Final = ("save_experiment_best", "save_trial_best", "save_trial_latest")


def read_config(
    config_text: str, source: str, overrides: Sequence[str]
) -> experiment_config.ExperimentConfig:
    """Reads the config of an experiment.

    Args:
        config_text: YAML.
        source: Name of the text, for messages.
        overrides: `path=value` each.

    Raises:
        ConfigError: Listing all that is wrong.
    """
    content = yaml_io.load_text(config_text, source)
    if not isinstance(content, Mapping):
        raise errors.ConfigError(f"{source}: got {errors.show(content)}, expected a mapping.")
    config = experiment_config.parse(_override(content, overrides))
    search_factory.check(config)
    return config


def _override(content: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    merged = dict(content)
    for text in overrides:
        merged = overrides_lib.merge(merged, overrides_lib.parse_assignment(text))
    return merged


class Commands:
    """What users ask of experiments. All methods may be called from several threads."""

    def __init__(self, core: core_lib.Core, processes: scheduling.Scheduling) -> None:
        """Stores what the parts of the master share."""
        self._core = core
        self._processes = processes

    # New experiments.

    def create(
        self,
        config: experiment_config.ExperimentConfig,
        text: str,
        model_dir: pathlib.Path | None,
        *,
        parent_id: int | None = None,
        activate: bool = True,
        trial_seed: int | None = None,
    ) -> experiment.Experiment:
        """Creates an experiment; see `Master.create_experiment`."""
        core = self._core
        with faults.explaining_search():
            machine = experiment_machine.ExperimentMachine(config)
        record = experiment.Experiment(
            id=0,
            state=states.ExperimentState.ACTIVE,
            config=config.as_dict(),
            original_config=text,
            model_dir="",
            description=config.description or config.name,
            labels=tuple(sorted(set(config.labels))),
            start_time=time.time(),
            parent_id=parent_id,
        )
        # The user's directory may be large and slow: nobody waits for its copy.
        with model_files.staging(core.home) as scratch:
            has_rules = model_dir is None or not model_dir.is_relative_to(core.home / "experiments")
            if model_dir is None:
                (scratch / model_files.NAME).mkdir()
            else:
                model_files.copy_model_dir(
                    model_dir, scratch / model_files.NAME, config.code, has_rules=has_rules
                )
            with core.condition:
                start: dict[str, Any] = {
                    "kind": "start",
                    "config": config.as_dict(),
                    "source_checkpoint": self._find_source(config.searcher),
                    "trial_seed": trial_seed,
                }
                events = [start] if activate else [start, {"kind": "pause"}]
                placed = None
                try:
                    with core.store.transaction() as session:
                        record = self._add_new(session, record)
                        target = model_files.choose_place(core.home, record.id)
                        code = str(target / model_files.NAME)
                        record = dataclasses.replace(record, model_dir=code)
                        session.update_experiment(record)
                        entry = entries.Entry(record, machine, config)
                        for event in events:
                            event["time"] = time.time()
                            with faults.explaining_search():
                                effects = machine.apply(event)
                            session.add_event(record.id, event)
                            entries.write_effects(session, entry, effects)
                        placed = scratch.rename(target)
                except Exception:
                    if placed is not None:
                        placed.rename(scratch)
                    raise
                core.entries[record.id] = entry
                core.notify()
                return entry.record

    def _add_new(
        self, session: session_lib.Session, record: experiment.Experiment
    ) -> experiment.Experiment:
        """Stores an experiment under a number that no directory of the home has yet.

        A database that is an older copy gives numbers again; what has them is another's.
        """
        added = session.add_experiment(record)
        roots = [self._core.home / name for name in ("experiments", "scratch")]
        while any((root / str(added.id)).exists() for root in roots):
            session.delete_experiment(added.id)
            added = session.add_experiment(record)
        return added

    def _find_source(self, config: searcher_config.SearcherConfig) -> str | None:
        """Returns the checkpoint from which all trials start, or None."""
        with self._core.store.reading() as session:
            if config.source_checkpoint_uuid is not None:
                found = session.get_checkpoint(config.source_checkpoint_uuid)
                if found.state is not checkpoint.CheckpointState.COMPLETED:
                    raise errors.ConfigError(
                        f"searcher.source_checkpoint_uuid: the files of {found.uuid!r} are "
                        f"{found.state.value.lower()}; choose another checkpoint."
                    )
                return found.uuid
            if config.source_trial_id is None:
                return None
            session.get_trial(config.source_trial_id)
            usable = session.list_checkpoints(
                trial_id=config.source_trial_id, states=[checkpoint.CheckpointState.COMPLETED]
            )
        if not usable:
            raise errors.ConfigError(
                f"searcher.source_trial_id: trial {config.source_trial_id} has no checkpoint to "
                "start from."
            )
        return max(usable, key=lambda each: each.total_batches).uuid

    def rerun_trial(self, trial_id: int) -> experiment.Experiment:
        """Creates an experiment of one trial; see `Master.rerun_trial`."""
        with self._core.store.reading() as session:
            former = session.get_trial(trial_id)
            owner = session.get_experiment(former.experiment_id)
        config = experiment_config.parse(owner.config)
        unit = config.searcher.batches_per_unit
        longest = getattr(config.searcher, "max_length", 0) * unit
        plain = dict(owner.config)
        plain["hyperparameters"] = _freeze(former.hparams)
        plain["searcher"] = {
            "name": "single",
            "metric": config.searcher.metric,
            "smaller_is_better": config.searcher.smaller_is_better,
            "source_trial_id": config.searcher.source_trial_id,
            "source_checkpoint_uuid": config.searcher.source_checkpoint_uuid,
            "max_length": {"batches": former.total_batches or longest or config.scheduling_unit},
        }
        plain["description"] = f"Trial {trial_id} again"
        return self.create(
            experiment_config.parse(plain),
            yaml_io.dump(plain),
            pathlib.Path(owner.model_dir),
            parent_id=owner.id,
            trial_seed=former.seed,
        )

    def fork(
        self,
        experiment_id: int,
        config_text: str | None,
        model_dir: pathlib.Path | None,
        overrides: Sequence[str],
        *,
        activate: bool,
    ) -> experiment.Experiment:
        """Creates an experiment from another one; see `Master.fork`."""
        with self._core.store.reading() as session:
            owner = session.get_experiment(experiment_id)
        text = config_text if config_text is not None else owner.original_config
        config = read_config(text, f"experiment {experiment_id}", overrides)
        source = model_dir or pathlib.Path(owner.model_dir)
        return self.create(config, text, source, parent_id=experiment_id, activate=activate)

    # Experiments that are there.

    def command(self, experiment_id: int, name: str) -> experiment.Experiment:
        """Pauses, activates, cancels or kills an experiment.

        Raises:
            StateError: If that is not possible now; the message says what is.
        """
        core = self._core
        with core.condition:
            record = self._record(experiment_id)
            if record.state.is_terminal:
                if name in ("cancel", "kill") and record.state is states.ExperimentState.CANCELED:
                    return record
                raise errors.StateError(
                    f"Experiment {experiment_id} has ended ({record.state.value}) and can't be "
                    f"asked to {name}; it may be archived, deleted, forked or continued."
                )
            entry = core.entry(experiment_id)
            entry.machine.check(name)
            with core.containing(experiment_id, f"when it was asked to {name}"):
                core.apply(entry, {"kind": name})
                if name == "kill":
                    self._kill_runs(experiment_id)
                return entry.record
            raise errors.StateError(
                f"Experiment {experiment_id} has failed: {self._record(experiment_id).reason}"
            )

    def set_archived(self, experiment_id: int, *, is_archived: bool) -> experiment.Experiment:
        """Archives an ended experiment, or takes it back."""
        with self._core.condition:
            record = self._ended(experiment_id, "archived" if is_archived else "unarchived")
            record = dataclasses.replace(record, is_archived=is_archived)
            self._core.write(lambda session: session.update_experiment(record))
            return record

    def delete(self, experiment_id: int) -> experiment.Experiment:
        """Deletes an ended experiment; see `Master.delete`."""
        core = self._core
        with core.condition:
            record = self._ended(experiment_id, "deleted")
            with core.store.reading() as session:
                checkpoints = session.list_checkpoints(experiment_id=experiment_id)
            used = core.find_protected() & {each.uuid for each in checkpoints}
            if used:
                raise errors.StateError(
                    f"Experiment {experiment_id} can't be deleted: trials that have not ended "
                    f"start from its checkpoints {', '.join(sorted(used))}."
                )
            notes = self._note_all(record, [each.uuid for each in checkpoints])

            def write(session: session_lib.Session) -> None:
                session.add_deletions(notes)
                session.delete_experiment(experiment_id)

            core.write(write)
        core.deletions.run()
        return record

    def _note_all(
        self, record: experiment.Experiment, uuids: Sequence[str]
    ) -> list[deletion.Deletion]:
        """Returns notes of all directories of an experiment."""
        note, kinds = self._core.deletions.note, deletion.DeletionKind
        root = self._core.checkpoint_root(experiment_config.parse(record.config))
        notes = note(kinds.CHECKPOINT, root, uuids, record.id)
        home = self._core.home
        notes += note(kinds.EXPERIMENT, home / "scratch", [str(record.id)], record.id)
        code = pathlib.Path(record.model_dir).parent
        if record.model_dir and code.parent == home / "experiments":
            notes += note(kinds.EXPERIMENT, code.parent, [code.name], record.id)
        return notes

    def delete_checkpoint(self, uuid: str) -> checkpoint.Checkpoint:
        """Deletes the files of a checkpoint; see `Master.delete_checkpoint`."""
        core = self._core
        with core.condition:
            with core.store.reading() as session:
                record = session.get_checkpoint(uuid)
            if uuid in core.find_protected():
                raise errors.StateError(
                    f"Checkpoint {uuid} can't be deleted: a trial that has not ended goes on from "
                    "it."
                )
            checkpoint_gc.let_go(core, {record.experiment_id: [record]})
        core.deletions.run()
        return dataclasses.replace(record, state=checkpoint.CheckpointState.DELETED)

    def kill_trial(self, trial_id: int) -> trial.Trial:
        """Ends a trial at once; see `Master.kill_trial`."""
        core = self._core
        with core.condition:
            with core.store.reading() as session:
                former = session.get_trial(trial_id)
            if former.state is states.TrialState.CANCELED:
                return former
            if former.state.is_terminal:
                raise errors.StateError(f"Trial {trial_id} has ended ({former.state.value}).")
            entry = core.entry(former.experiment_id)
            request_id = entry.request_ids[trial_id]
            core.apply(entry, {"kind": "kill_trial", "request_id": request_id})
            if trial_id in core.runs:
                self._processes.kill(core.runs[trial_id])
            return entry.build_trial_record(request_id)

    def continue_experiment(
        self, experiment_id: int, overrides: Sequence[str]
    ) -> experiment.Experiment:
        """Takes up an ended experiment again; see `Master.continue_experiment`."""
        core = self._core
        with core.condition:
            record = self._ended(experiment_id, "continued")
            config = experiment_config.parse(_override(record.config, overrides))
            former = experiment_config.parse(record.config)
            entry = core.load(experiment_id)
            _check_continuation(former, config)
            if not entry.machine.find_resumable(config):
                raise errors.StateError(
                    f"Experiment {experiment_id} has no trial to go on with. Raise "
                    "searcher.max_length to train longer, raise max_trials for more trials, or "
                    "fork it."
                )
            hparams = None
            if isinstance(config.searcher, searcher_config.SingleConfig):
                hparams = _draw_first(config, next(iter(entry.machine.trials.values())).hparams)
            entry.config = config
            entry.record = dataclasses.replace(
                entry.record, config=config.as_dict(), is_archived=False
            )
            core.entries[experiment_id] = entry
            event = {"kind": "resume", "config": config.as_dict(), "hparams": hparams}
            self._reopen(entry, event)
            return entry.record

    def update(
        self,
        experiment_id: int,
        *,
        description: str | None,
        labels: Sequence[str] | None,
        resources: Mapping[str, Any],
        max_trials: int | None,
        checkpoint_storage: Mapping[str, int] | None,
    ) -> experiment.Experiment:
        """Changes an experiment; see `Master.update_experiment`."""
        core = self._core
        with core.condition:
            record = self._record(experiment_id)
            changes: dict[str, Any] = {}
            if description is not None:
                changes["description"] = description
            if labels is not None:
                changes["labels"] = sorted(set(labels))
            if resources:
                changes["resources"] = dict(resources)
            if checkpoint_storage:
                _check_gc_fields(checkpoint_storage)
                changes["checkpoint_storage"] = dict(checkpoint_storage)
            if max_trials is not None:
                changes["searcher"] = {"max_trials": max_trials}
            is_ended = record.state.is_terminal
            entry = core.load(experiment_id) if is_ended else core.entry(experiment_id)
            if max_trials is not None:
                entry.machine.check_extension(max_trials)
            config = experiment_config.parse(overrides_lib.merge(record.config, changes))
            updated = dataclasses.replace(
                entry.record,
                config=config.as_dict(),
                description=record.description if description is None else description,
                labels=record.labels if labels is None else tuple(sorted(set(labels))),
            )
            if max_trials is not None:
                former = entry.record, entry.config
                entry.record, entry.config = updated, config
                core.entries[experiment_id] = entry
                try:
                    self._reopen(entry, {"kind": "extend", "max_trials": max_trials})
                except Exception:
                    entry.record, entry.config = former
                    raise
            else:
                core.write(lambda session: session.update_experiment(updated))
                entry.record, entry.config = updated, config
            if checkpoint_storage and entry.record.state.is_terminal:
                checkpoint_gc.collect_ended(core, entry)
            core.notify()
            return entry.record

    def _reopen(self, entry: entries.Entry, event: dict[str, Any]) -> None:
        """Applies an event that also changes the config, and may open an ended experiment."""
        core, record = self._core, entry.record
        try:
            core.apply(entry, event, lambda session: session.update_experiment(entry.record))
        except Exception:
            if record.state.is_terminal:
                core.entries.pop(entry.id, None)
            raise

    def _kill_runs(self, experiment_id: int) -> None:
        for live in list(self._core.runs.values()):
            if live.record.experiment_id == experiment_id:
                self._processes.kill(live)

    def _record(self, experiment_id: int) -> experiment.Experiment:
        with self._core.store.reading() as session:
            return session.get_experiment(experiment_id)

    def _ended(self, experiment_id: int, what: str) -> experiment.Experiment:
        record = self._record(experiment_id)
        if not record.state.is_terminal:
            raise errors.StateError(
                f"Experiment {experiment_id} is {record.state.value}; only an ended one can be "
                f"{what}. Cancel it, or wait for its end."
            )
        return record


def _freeze(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a space with just one point; mappings that are values stay values."""
    return {
        name: _freeze(value)
        if isinstance(value, Mapping) and "type" not in value
        else {"type": "const", "val": value}
        for name, value in hparams.items()
    }


def _check_gc_fields(given: Mapping[str, int]) -> None:
    for name in given:
        if name not in _GC_FIELDS:
            raise errors.ConfigError(
                f"checkpoint_storage.{name}: can't be changed, expected one of "
                f"{', '.join(_GC_FIELDS)}.{errors.suggest(name, _GC_FIELDS)}"
            )


def _check_continuation(
    former: experiment_config.ExperimentConfig, config: experiment_config.ExperimentConfig
) -> None:
    """Checks that a search can go on with a changed config."""
    is_single = isinstance(config.searcher, searcher_config.SingleConfig)
    old, new = former.as_dict(), config.as_dict()
    fixed = {
        "searcher.name": (former.searcher.name, config.searcher.name),
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


def _draw_first(
    config: experiment_config.ExperimentConfig, former: dict[str, Any]
) -> dict[str, Any]:
    """Returns the hyperparameters of the one trial of a `single` search."""
    seed = config.reproducibility.experiment_seed
    if seed is None:
        return former
    space = space_lib.Space.parse(config.hyperparameters)
    return dict(space.sample(searcher.new_random(seed)))
