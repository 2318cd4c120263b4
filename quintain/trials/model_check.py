"""Says whether an experiment's code can be run, in a process that nothing else needs.

`python -m quintain.trials.model_check` reads `{"config": ..., "model_dir": ...}` as JSON and
writes what is wrong as JSON, `{"problems": [{"path": ..., "message": ...}]}`, as its last line.
What the user's code prints goes to standard error.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from quintain import errors
from quintain.trials import trial_loader


def find_problems(config: Mapping[str, Any], model_dir: str | None) -> list[errors.Problem]:
    """Imports the trial of an experiment and returns what is wrong with it.

    Args:
        config: The complete config of the experiment, as plain data.
        model_dir: Directory of the user's code; None if there is none.
    """
    entrypoint = config.get("entrypoint")
    try:
        if entrypoint is not None and entrypoint.startswith(trial_loader.EXPERIMENT_PREFIX):
            importlib.import_module("quintain.trials.task_trial").check(config, model_dir)
        else:
            loaded = trial_loader.load_trial(model_dir or "", entrypoint, experiment_config=config)
            importlib.import_module(loaded.controller_module)
    except errors.ConfigError as error:
        return list(error.problems) or [_to_problem(str(error))]
    except errors.QuintainError as error:
        return [_to_problem(str(error))]
    except Exception as error:  # noqa: BLE001 - user code raises what it likes
        return [errors.Problem("entrypoint", f"{type(error).__name__}: {error}")]
    return []


def _to_problem(message: str) -> errors.Problem:
    """Returns a problem at the entry point, unless the message says where."""
    path, colon, rest = message.partition(": ")
    is_path = bool(colon) and path.partition(".")[0] in ("entrypoint", "hyperparameters")
    return errors.Problem(path, rest) if is_path else errors.Problem("entrypoint", message)


@contextlib.contextmanager
def _output_elsewhere() -> Iterator[int]:
    """Sends all that is printed to standard error; gives the descriptor of standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield kept
    finally:
        sys.stdout.flush()
        os.close(kept)


def main() -> None:
    """Checks what standard input describes."""
    request = json.load(sys.stdin)
    with _output_elsewhere() as output:
        try:
            problems = find_problems(request["config"], request["model_dir"])
        except SystemExit as error:
            problems = [errors.Problem("entrypoint", f"importing it exits with {error.code!r}.")]
        plain = [dataclasses.asdict(problem) for problem in problems]
        os.write(output, (json.dumps({"problems": plain}) + "\n").encode())


if __name__ == "__main__":
    main()
