"""Check of an experiment's code, in a process that nothing else needs.

The variable `QUINTAIN_CHECK` names a directory. `request.json` in it says what to check,
`{"config": ..., "model_dir": ...}`; what is wrong is written beside it as `problems.json`,
`[{"path": ..., "message": ...}]`, and `settings.json` has what follows from the kind of trial,
`{"resources.processes_per_trial": ...}`, or from what its task declares.
"""

import dataclasses
import importlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.records.config import experiment_spec, searcher_config
from quintain.search import space as space_lib
from quintain.trials import trial_context
from quintain.trials.process import trial_loader

_KERAS_MODULE: Final = "quintain.trials.keras.keras_trial"
_PROCESSES: Final = "resources.processes_per_trial"


def find_problems(
    config: Mapping[str, Any], model_dir: str | None, settings: dict[str, Any] | None = None
) -> list[errors.Problem]:
    """Imports the trial of an experiment and returns what is wrong with it.

    Args:
        config: The complete config of the experiment, as plain data.
        model_dir: Directory of the user's code; None if there is none.
        settings: Gets what follows from the kind of trial, by dotted paths of the config.
    """
    entrypoint = config.get("entrypoint")
    try:
        if entrypoint is not None and entrypoint.startswith(experiment_spec.REGISTERED_PREFIX):
            task_trial = importlib.import_module("quintain.trials.task_trial")
            labels = task_trial.check(config, model_dir).items()
            best = {name: label.best for name, label in labels if label.best}
            _set_by_metric("directions", best, config, settings)
            is_known = searcher_config.METRIC_FORMAT.fullmatch
            formats = {name: form for name, one in labels if is_known(form := one.format or "")}
            _set_by_metric("formats", formats, config, settings)
        else:
            _offer_context(config)
            loaded = trial_loader.load_trial(model_dir or "", entrypoint)
            importlib.import_module(loaded.controller_module)
            _check_processes(config, loaded, {} if settings is None else settings)
            if loaded.controller_module == _KERAS_MODULE:
                directions = importlib.import_module("quintain.trials.keras.keras_directions")
                best = directions.find(pathlib.Path(model_dir or ""))
                _set_by_metric("directions", best, config, settings)
    except errors.ConfigError as error:
        return list(error.problems) or [_to_problem(str(error))]
    except errors.QuintainError as error:
        return [_to_problem(str(error))]
    except Exception as error:  # noqa: BLE001 - user code raises what it likes
        return [errors.Problem("entrypoint", f"{type(error).__name__}: {error}")]
    return []


def _set_by_metric(
    field: str,
    declared: Mapping[str, str],
    config: Mapping[str, Any],
    settings: dict[str, Any] | None,
) -> None:
    """Sets a field of `searcher` that is by metric; what the config says counts first."""
    own = (config.get("searcher") or {}).get(field) or {}
    if settings is not None and (declared or own):
        settings[f"searcher.{field}"] = {**declared, **own}


def _check_processes(
    config: Mapping[str, Any], loaded: trial_loader.LoadedTrial, settings: dict[str, Any]
) -> None:
    """Finds out how many processes train a trial of several slots."""
    resources = config.get("resources") or {}
    count, asked = resources.get("slots_per_trial", 1), resources.get("processes_per_trial")
    if loaded.controller_module in trial_loader.GANG_MODULES:
        if asked is None and count > 1:
            settings[_PROCESSES] = count
    elif asked is not None and asked > 1:
        problem = errors.Problem(_PROCESSES, trial_loader.refuse_processes(loaded, asked))
        raise errors.ConfigError.from_problems([problem])


def _offer_context(config: Mapping[str, Any]) -> None:
    """Lets code that asks for hyperparameters while it is imported find some of the space."""
    space = space_lib.Space.parse(config.get("hyperparameters") or {})
    context = trial_context.TrialContext.from_config(config)
    context.spec.hparams.clear()
    context.spec.hparams.update(space.sample(np.random.RandomState(0)))
    trial_context.set_current_context(context)


def _to_problem(message: str) -> errors.Problem:
    """Returns a problem at the entry point, unless the message says where."""
    path, colon, rest = message.partition(": ")
    is_path = bool(colon) and path.partition(".")[0] in ("entrypoint", "hyperparameters")
    return errors.Problem(path, rest) if is_path else errors.Problem("entrypoint", message)


def main() -> None:
    """Checks what the request describes."""
    folder = pathlib.Path(os.environ["QUINTAIN_CHECK"])
    request = json.loads((folder / "request.json").read_text())
    settings: dict[str, Any] = {}
    try:
        problems = find_problems(request["config"], request["model_dir"], settings)
    except SystemExit as error:
        problems = [errors.Problem("entrypoint", f"importing it exits with {error.code!r}.")]
    plain = [dataclasses.asdict(problem) for problem in problems]
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "problems.json").write_text(json.dumps(plain))


if __name__ == "__main__":
    main()
