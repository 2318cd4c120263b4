"""Creation of experiments: reads a config, copies the user's code, and stores both."""

import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.config import overrides as overrides_lib
from quintain.config import yaml_io
from quintain.files import atomic_write
from quintain.master import earlier_trials, entries, metric_sending, shared_state, unexpected_errors
from quintain.master.machine import active_time, experiment_machine
from quintain.master.transfer import model_files
from quintain.records.config import experiment_spec, provenance, searcher_config
from quintain.records.rows import checkpoint, codec, experiment, states, trial
from quintain.search import auto, hyperparameters, search_factory
from quintain.search import space as space_lib
from quintain.storage import storages
from quintain.store import session as session_lib

ConfigCheck = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
"""Raises an error unless a config, the first one, may be changed into the second one."""

_LEAST_READY: Final = 256
"""Trials that a search may hold ready on any machine; a later master may have more slots."""

_MOST_SPARE: Final = 1024
"""Trials that are ready beyond those of all slots, at most: each takes 1.4 KiB of the master."""


def allow_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Allows any change of a config."""
    del before, after


def read_content(config_text: str, source: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Reads the config of an experiment as plain data.

    Raises:
        ConfigError: If a text can't be read.
    """
    content = yaml_io.load_text(config_text, source)
    if not isinstance(content, Mapping):
        raise errors.ConfigError(f"{source}: got {errors.show(content)}, expected a mapping.")
    return override(content, overrides)


def build_config(content: Mapping[str, Any]) -> experiment_spec.ExperimentSpec:
    """Returns the config that plain data say, with a search that can begin.

    Raises:
        ConfigError: Listing all that is wrong.
    """
    config = search_factory.settle(experiment_spec.parse(content))
    search_factory.check(config)
    return config


def override(content: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Returns a config with `path=value` texts that win over it."""
    merged = dict(content)
    for text in overrides:
        merged = overrides_lib.merge(merged, overrides_lib.parse_assignment(text))
    return merged


def create(
    shared: shared_state.SharedState,
    config: experiment_spec.ExperimentSpec,
    text: str,
    model_dir: pathlib.Path | None,
    *,
    parent_id: int | None = None,
    activate: bool = True,
    trial_seed: int | None = None,
    origin: provenance.Provenance | None = None,
) -> experiment.Experiment:
    """Creates an experiment and copies the user's code.

    Args:
        shared: Gets the experiment.
        config: Its config.
        text: The config as the user wrote it.
        model_dir: Directory with the user's code, or None if there is none. What
            `.quintainignore` or `.detignore` names in it is left out. What was sent is moved.
        parent_id: Experiment that it was made from.
        activate: Whether it starts at once; else it is paused.
        trial_seed: Seed of all trials, or None if each draws its own.
        origin: Where it comes from, which is kept beside the code; None if nobody said it.

    Raises:
        ConfigError: If its checkpoints can't be written where it says, its search can't begin, or
            no machine has what its trials need, unless it is paused.
    """
    config = _settle_processes(config)
    with shared.condition:
        lack = shared.nodes.find_lack(config.resources, is_new=True) if activate else ""
    if lack:
        raise errors.ConfigError(
            f"{lack} Created paused (--paused), it waits for machines that join later."
        )
    metric_sending.check(config.loggers)
    storages.build(config.as_dict(), shared.home / "checkpoints").check()
    with unexpected_errors.search_errors_explained():
        machine = experiment_machine.ExperimentMachine(config)
    learned = earlier_trials.find(shared.store, config)
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
    with model_files.staging(shared.home) as scratch:
        code_dir = scratch / model_files.NAME
        if model_dir is None:
            code_dir.mkdir()
        elif model_dir.is_relative_to(model_files.find_staging(shared.home)):
            model_files.move_model_dir(model_dir, code_dir, config.code)
        else:
            has_rules = not model_dir.is_relative_to(shared.home / "experiments")
            model_files.copy_model_dir(model_dir, code_dir, config.code, has_rules=has_rules)
        if origin is not None:
            text_of_origin = json.dumps(codec.to_plain(origin), indent=1)
            atomic_write.write_atomically(scratch / provenance.FILE_NAME, text_of_origin)
        with shared.condition:
            start: dict[str, Any] = {
                "kind": "start",
                "config": config.as_dict(),
                "source_checkpoint": _find_source(shared, config.searcher),
                "trial_seed": trial_seed,
                "most_ready": _count_ready(len(shared.nodes.slots)),
                **learned,
            }
            if chosen := auto.describe(config.searcher):
                start["note"] = f"{chosen} {learned.get('note', '')}".strip()
            events = [start] if activate else [start, {"kind": "pause"}]
            placed = None
            try:
                with shared.store.transaction() as session:
                    record = _add_new(shared, session, record)
                    target = model_files.choose_place(shared.home, record.id)
                    code = str(target / model_files.NAME)
                    record = dataclasses.replace(record, model_dir=code)
                    session.update_experiment(record)
                    entry = entries.Entry(record, machine, config)
                    for event in map(active_time.stamp, events):
                        with unexpected_errors.search_errors_explained():
                            effects = machine.apply(event)
                        session.add_event(record.id, event)
                        entries.write_effects(session, entry, effects)
                    placed = scratch.rename(target)
            except Exception:
                if placed is not None:
                    placed.rename(scratch)
                raise
            shared.entries[record.id] = entry
            shared.notify()
            return entry.record


def _count_ready(num_slots: int) -> int:
    return max(_LEAST_READY, num_slots + min(num_slots, _MOST_SPARE))


def _settle_processes(config: experiment_spec.ExperimentSpec) -> experiment_spec.ExperimentSpec:
    """Returns a config that says how many processes train a trial, and how few do.

    Of a class of the user's, that follows from its kind, which the command that creates the
    experiment finds out when it checks the code.
    """
    resources = config.resources
    is_registered = (config.entrypoint or "").startswith(experiment_spec.REGISTERED_PREFIX)
    if resources.min_slots_per_trial is not None and not is_registered:
        raise errors.ConfigError(
            f"resources.min_slots_per_trial: got {resources.min_slots_per_trial} with the "
            f"entrypoint {config.entrypoint!r}, but only registered experiments with "
            "runtime.elastic go on with fewer slots. Leave it out."
        )
    num_slots = resources.slots_per_trial
    if num_slots < 2:
        return config
    count = resources.processes_per_trial or (num_slots if is_registered else 1)
    least = resources.min_slots_per_trial
    is_power = num_slots & (num_slots - 1) == 0
    if least is None and is_registered and count > 1 and is_power and _is_elastic(config):
        least = 1
    settled = config.replace(resources={"processes_per_trial": count, "min_slots_per_trial": least})
    settled.lock()
    return settled


def _is_elastic(config: experiment_spec.ExperimentSpec) -> bool:
    """Returns whether the hyperparameters say `runtime.elastic`."""
    dimensions = space_lib.Space.parse(config.hyperparameters).dimensions
    found = [one.hyperparameter for one in dimensions if one.name == "runtime.elastic"]
    return found == [hyperparameters.Const(True)]


def _add_new(
    shared: shared_state.SharedState, session: session_lib.Session, record: experiment.Experiment
) -> experiment.Experiment:
    """Stores an experiment under a number that no directory of the home has yet.

    A database that is an older copy gives numbers again; what has them is another's.
    """
    added = session.add_experiment(record)
    roots = [shared.home / name for name in ("experiments", "scratch")]
    while any((root / str(added.id)).exists() for root in roots):
        session.delete_experiment(added.id)
        added = session.add_experiment(record)
    return added


def _find_source(
    shared: shared_state.SharedState, config: searcher_config.SearcherConfig
) -> str | None:
    """Returns the checkpoint from which all trials start, or None."""
    with shared.store.reading() as session:
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
            "start from. Choose another trial."
        )
    return max(usable, key=lambda each: each.total_batches).uuid


def rerun(shared: shared_state.SharedState, trial_id: int) -> experiment.Experiment:
    """Creates an experiment of one trial, with the hyperparameters and seed of another one."""
    former, owner = _read_trial(shared, trial_id)
    searcher = experiment_spec.parse(owner.config).searcher
    source = {
        "source_trial_id": searcher.source_trial_id,
        "source_checkpoint_uuid": searcher.source_checkpoint_uuid,
    }
    plain = _build_single(former, owner, source)
    plain["description"] = f"Trial {trial_id} again"
    return _create_again(shared, former, owner, plain)


def continue_trial(
    shared: shared_state.SharedState,
    trial_id: int,
    overrides: Sequence[str],
    check_change: ConfigCheck,
) -> experiment.Experiment:
    """Creates an experiment of one trial that begins with the newest checkpoint of another one.

    It has the hyperparameters and seed of that one, and trains as long again.
    """
    former, owner = _read_trial(shared, trial_id)
    source = {"source_trial_id": trial_id, "source_checkpoint_uuid": None}
    plain = _build_single(former, owner, source)
    plain["description"] = f"Trial {trial_id} continued"
    content = override(plain, overrides)
    check_change(plain, content)
    return _create_again(shared, former, owner, content)


def _read_trial(
    shared: shared_state.SharedState, trial_id: int
) -> tuple[trial.TrialRecord, experiment.Experiment]:
    with shared.store.reading() as session:
        former = session.get_trial(trial_id)
        return former, session.get_experiment(former.experiment_id)


def _build_single(
    former: trial.TrialRecord, owner: experiment.Experiment, source: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the config of an experiment that trains just this point of a search."""
    config = experiment_spec.parse(owner.config)
    longest = getattr(config.searcher, "max_length", 0) * config.searcher.batches_per_unit
    length = former.total_batches or longest or config.scheduling_unit
    searcher = {
        "name": "single",
        "metric": config.searcher.metric,
        "smaller_is_better": config.searcher.smaller_is_better,
        **source,
        "max_length": {"batches": length},
    }
    return {**owner.config, "hyperparameters": _freeze(former.hparams), "searcher": searcher}


def _create_again(
    shared: shared_state.SharedState,
    former: trial.TrialRecord,
    owner: experiment.Experiment,
    plain: Mapping[str, Any],
) -> experiment.Experiment:
    return create(
        shared,
        experiment_spec.parse(plain),
        yaml_io.dump(plain),
        pathlib.Path(owner.model_dir),
        parent_id=owner.id,
        trial_seed=former.seed,
        origin=inherit_provenance(owner),
    )


def inherit_provenance(owner: experiment.Experiment) -> provenance.Provenance | None:
    """Returns the provenance of an experiment that takes over the code of another one."""
    former = provenance.load(owner.model_dir)
    return None if former is None else dataclasses.replace(former, forked_from=owner.id)


def _freeze(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a space with just one point; mappings that are values stay values."""
    return {
        name: _freeze(value)
        if isinstance(value, Mapping) and "type" not in value
        else {"type": "const", "val": value}
        for name, value in hparams.items()
    }
