"""`quintain train --cluster-workers`: one run, trained by processes on the machines of a master.

It is an experiment of one trial, whose processes the master starts, watches and starts again. When
it is done, its last checkpoint becomes the run's directory.
"""

import importlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from quintain import errors
from quintain.cli import connect
from quintain.cli.experiment import foreground, sent_code
from quintain.client import provenance
from quintain.client.home import home as home_lib
from quintain.config import provenance as config_provenance
from quintain.config import yaml_io
from quintain.files import atomic_write, disk_errors, file_paths
from quintain.records import checkpoint_manifest
from quintain.records.config import experiment_spec
from quintain.records.rows import states

if TYPE_CHECKING:
    from quintain.client import master_client
    from quintain.records.rows import experiment as experiment_lib
    from quintain.run import experiment_parser

MODES: Final = ("train", "train_and_eval")
_NODES_SECS: Final = 60.0
"""For so long the nodes of a cluster are waited for whose master was just started: agents are slow
to start on machines with much to do."""

_POLL_SECS: Final = 0.5
FILE_NAME: Final = "cluster.json"
"""File of a run's directory that says which experiment trains it."""

_OWN_SETTINGS: Final = ("runtime.seed", "runtime.distribution_strategy")
"""Settings that each trial has of its own."""


def run(
    parse_options: "experiment_parser.ParseConfigOptions",
    *,
    mode: str,
    model_dir: str,
    num_slots: int | None,
    max_restarts: int,
    is_quiet: bool,
    ray_address: str | None = None,
    ray_max_slots: int | None = None,
) -> int:
    """Trains an experiment on the machines of the master that runs, or goes on with it.

    Args:
        parse_options: The flags as `ParseConfigOptions`.
        mode: Name of the mode.
        model_dir: Directory of this machine that the trained run is put into.
        num_slots: Processes, each with a slot of its own; None for `ray_max_slots`, or all slots of
            the Ray cluster.
        max_restarts: Failures after which it is given up; a lost machine is none.
        is_quiet: Whether to show nothing.
        ray_address: Ray cluster for which a master is started if none runs.
        ray_max_slots: Slots up to which that master asks Ray for nodes; None for no such.

    Returns:
        The exit code.

    Raises:
        ConfigError: If the experiment can't be trained this way, or the directory has another run.
    """
    from quintain.run import experiment_parser

    if mode not in MODES:
        raise errors.ConfigError(
            f"--cluster-workers: got --mode={mode}, expected {' or '.join(MODES)}; evaluate "
            "without it what was trained."
        )
    if not file_paths.is_local(model_dir):
        raise errors.ConfigError(
            f"--model-dir: got {model_dir!r} with --cluster-workers, expected a directory of this "
            "machine: the trained run is copied there. Checkpoints of the training lie where the "
            "master keeps them."
        )
    parsed = experiment_parser.parse(parse_options)
    if ray_address is not None:
        num_ray_slots = _find_ray_slots(
            ray_address, ray_max_slots, least=num_slots, is_quiet=is_quiet
        )
        num_slots = num_slots or ray_max_slots or num_ray_slots
    assert num_slots is not None
    config = build_config(parsed, num_slots, max_restarts)
    directory = _find_code_dir(parsed.imports)
    target = pathlib.Path(model_dir)
    former = _read_note(target, config)

    def begin(commands: "master_client.MasterClient") -> "experiment_lib.Experiment":
        if former is not None:
            return _go_on(commands, former)
        target.mkdir(parents=True, exist_ok=True)
        spec = experiment_spec.parse(config)
        experiment = commands.create_experiment(
            yaml_io.dump(config),
            **sent_code.find(commands, directory, spec.code),
            source="quintain train --cluster-workers",
            origin=provenance.collect(directory),
        )
        note = {"experiment": experiment.id, "time": experiment.start_time, "config": config}
        atomic_write.write_atomically(target / FILE_NAME, json.dumps(note, indent=1))
        if not is_quiet:
            click.echo(f"Created experiment {experiment.id}.")
        return experiment

    code, experiment = foreground.run(begin, is_quiet=is_quiet)
    if experiment.state is states.ExperimentState.COMPLETED:
        _fetch(experiment.id, target)
        if not is_quiet:
            click.echo(f"The trained run is in {target}.")
        return code
    advice = _go_on_later(experiment, target)
    if not is_quiet:
        click.echo(advice, err=True)
    return code


def _go_on_later(experiment: "experiment_lib.Experiment", directory: pathlib.Path) -> str:
    """Returns how a run is gone on with that is not done.

    Where it failed before anything was saved, its settings and its code bind nobody: the directory
    is free for others.
    """
    if experiment.state is not states.ExperimentState.ERROR:
        return "The same command goes on with it."
    with connect.open_calls() as calls:
        is_saved = any(trial.latest_checkpoint for trial in calls.list_trials(experiment.id))
    if not is_saved:
        (directory / FILE_NAME).unlink(missing_ok=True)
        return (
            "Nothing was saved. Mend what failed, in the settings or the code if it is there, and "
            f"train anew; --model-dir={directory} is free for that."
        )
    return (
        "With the same settings and code, the same command goes on from its last checkpoint: give "
        "it once what failed is mended elsewhere (a file, a disk, a machine). With others it would "
        "be another run: give that another --model-dir."
    )


def _find_ray_slots(
    address: str, max_slots: int | None, *, least: int | None = None, is_quiet: bool
) -> int:
    """Returns how many slots a Ray cluster has, for which a master is started if none runs.

    Where that asks for nodes, there may be none yet. Else it is waited for `least` slots, if the
    master was just started. If none are given, it is waited for all nodes that are there: the same
    command on the same cluster is to train in the same number of processes.

    Raises:
        ConfigError: If the master that runs has no other machines.
        MasterUnreachableError: If none can be started for the cluster; with its last words.
    """
    home = home_lib.find_home()
    deadline_secs = time.monotonic() + _NODES_SECS
    is_new = home_lib.find_master(home) is None
    if is_new:
        flags = ["--launcher=ray", f"--ray-address={address}"]
        if max_slots is not None:
            flags.append(f"--ray-max-slots={max_slots}")
        found = connect.start_in_background(home, flags=flags)
        if not is_quiet:
            click.echo(f"Started a master for Ray in the background (process {found.pid}).")
    with connect.open_client(start=False) as client:
        while True:
            summary = client.get_summary()
            num_slots = summary.num_remote_slots
            awaited = () if least or max_slots is not None else summary.awaited_nodes
            is_short = is_new and max_slots is None and num_slots < (least or 1)
            if not (is_short or awaited) or time.monotonic() >= deadline_secs:
                break
            time.sleep(_POLL_SECS)
    if awaited:
        raise errors.ConfigError(
            f"--ray: nothing is heard of {', '.join(awaited)}, which Ray counts among its nodes. "
            f"Try again, or say by --cluster-workers={num_slots} that {num_slots} will do."
        )
    if not num_slots and max_slots is None:
        raise errors.ConfigError(
            f"--ray: the master of {home.path} has no machines beside its own (`quintain node "
            "list`). End it by `quintain master stop`, and one for Ray is started here."
        )
    return num_slots


def build_config(
    parsed: "experiment_parser.ParsedExperiment", num_slots: int, max_restarts: int
) -> dict[str, Any]:
    """Returns the config of an experiment of one trial that trains a run.

    Args:
        parsed: The run.
        num_slots: Processes.
        max_restarts: Failures after which it is given up.

    Raises:
        ConfigError: If a setting names a file by a path that other processes can't follow.
    """
    from quintain.core import exp_factory

    params = parsed.params
    base = config_provenance.flatten(exp_factory.get_exp_config(parsed.name).as_dict())
    settings = {
        path: value
        for path, value in config_provenance.flatten(params.as_dict()).items()
        if path not in _OWN_SETTINGS and (path not in base or base[path] != value)
    }
    for path, value in settings.items():
        if isinstance(value, str) and not os.path.isabs(value) and os.path.exists(value):
            raise errors.ConfigError(
                f"{path}: got {value!r}, which lies below the directory of this command; expected "
                f"an absolute path that all machines have, such as {os.path.abspath(value)!r}."
            )
    trainer = params.trainer
    metric = trainer.best_checkpoint_eval_metric or "validation_loss"
    is_named = bool(trainer.best_checkpoint_eval_metric)
    periods = {
        "min_validation_period": trainer.validation_interval,
        "min_checkpoint_period": trainer.get_checkpoint_steps("a training on a cluster"),
    }
    return {
        "name": parsed.name,
        "entrypoint": f"{experiment_spec.REGISTERED_PREFIX}{parsed.name}",
        "hyperparameters": {
            path: {"type": "const", "val": value} for path, value in settings.items()
        },
        "searcher": {
            "name": "single",
            "metric": metric,
            "smaller_is_better": not is_named or trainer.best_checkpoint_metric_comp == "lower",
            "max_length": {"batches": trainer.train_steps},
        },
        "scheduling_unit": trainer.steps_per_loop,
        **{name: {"batches": steps} for name, steps in periods.items() if steps},
        "max_restarts": max_restarts,
        "resources": {"slots_per_trial": num_slots, "processes_per_trial": num_slots},
        **(
            {}
            if params.runtime.seed is None
            else {"reproducibility": {"experiment_seed": params.runtime.seed}}
        ),
    }


def _find_code_dir(imports: Sequence[str]) -> pathlib.Path | None:
    """Returns the directory with the modules that register the experiment; None if it is ours.

    Raises:
        ConfigError: If they lie in several.
    """
    found: dict[pathlib.Path, str] = {}
    for name in imports:
        importlib.import_module(name)
        origin = sys.modules[name.partition(".")[0]].__file__ or ""
        path = pathlib.Path(origin)
        found[path.parent.parent if path.name == "__init__.py" else path.parent] = name
    if len(found) > 1:
        places = ", ".join(f"{name} ({path})" for path, name in found.items())
        raise errors.ConfigError(
            f"--import: got modules of several directories, {places}; with --cluster-workers the "
            "directory with the code is copied to the machines: put them into one."
        )
    return next(iter(found), None)


def _read_note(directory: pathlib.Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns which experiment trains the run of a directory already.

    Raises:
        ConfigError: If the directory has another run.
    """
    if not directory.is_dir() or not any(directory.iterdir()):
        return None
    try:
        note: dict[str, Any] = disk_errors.read_json(directory / FILE_NAME)
    except FileNotFoundError:
        raise errors.ConfigError(
            f"--model-dir: {directory} has files, but no run of `quintain train "
            "--cluster-workers`; choose a directory that is empty or not there."
        ) from None
    if note["config"] == json.loads(json.dumps(config)):
        return note
    former, now = (
        config_provenance.flatten(note["config"]),
        config_provenance.flatten(json.loads(json.dumps(config))),
    )
    changed = [
        f"{path.removeprefix('hyperparameters.').removesuffix('.val')}: "
        f"{former.get(path)!r} -> {now.get(path)!r}"
        for path in sorted(former.keys() | now.keys())
        if former.get(path) != now.get(path) and not path.endswith(".type")
    ]
    raise errors.ConfigError(
        f"--model-dir: {directory} is trained by experiment {note['experiment']} with other "
        f"settings ({'; '.join(changed)}). Give those again to go on, or another --model-dir."
    )


def _go_on(
    commands: "master_client.MasterClient", note: Mapping[str, Any]
) -> "experiment_lib.Experiment":
    """Lets the experiment that trains a run go on, whatever became of it.

    Raises:
        ConfigError: If the master does not know it.
    """
    number = int(note["experiment"])
    with connect.open_calls() as calls:
        try:
            found = calls.get_experiment(number)
        except errors.NotFoundError:
            found = None
    if found is None or found.start_time != note["time"]:
        raise errors.ConfigError(
            f"--model-dir: it is trained by experiment {number} of another master, or one that was "
            "deleted; choose another directory."
        )
    if found.state is states.ExperimentState.PAUSED:
        return commands.apply(number, "activate")
    if found.state.is_terminal and found.state is not states.ExperimentState.COMPLETED:
        return commands.continue_experiment(number, ())
    return found


def _fetch(experiment_id: int, directory: pathlib.Path) -> None:
    """Puts the last checkpoint of an experiment's trial into the directory of the run.

    Raises:
        CheckpointError: If it is damaged.
    """
    with connect.open_calls() as calls:
        (trial,) = calls.list_trials(experiment_id)
        found = calls.get_checkpoint(trial.latest_checkpoint or "")
        calls.fetch_checkpoint(found.uuid, directory)
    damage = checkpoint_manifest.find_damage(directory, found.files)
    if damage:
        raise errors.CheckpointError(f"checkpoint {found.uuid}: it is damaged: {damage}.")
