"""Checks a user's code in a process of its own, before an experiment is created."""

import json
import pathlib
import subprocess
import sys
from typing import Any, Final

from quintain import errors
from quintain.cli import experiment_file
from quintain.records import codec

_TIMEOUT_SECS: Final = 300.0
_LAST_LINES: Final = 20


def check(file: experiment_file.ExperimentFile, model_dir: pathlib.Path | None) -> None:
    """Checks that the entrypoint is found and complete, and that the hyperparameters fit it.

    Args:
        file: The config.
        model_dir: Directory with the user's code.

    Raises:
        ConfigError: Listing all that is wrong.
    """
    request = {
        "config": codec.to_plain(file.config.as_dict()),
        "model_dir": None if model_dir is None else str(model_dir.absolute()),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "quintain.trials.model_check"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECS,
        )
    except subprocess.TimeoutExpired as error:
        raise errors.ConfigError(
            f"{file.locate('entrypoint')}: entrypoint: importing it took more than "
            f"{_TIMEOUT_SECS:.0f} s; --no_check skips this."
        ) from error
    problems = [_with_place(file, problem) for problem in _read_problems(done)]
    if problems:
        raise errors.ConfigError.from_problems(problems)


def _read_problems(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    """Returns what the process found: the last line of its output."""
    try:
        return list(json.loads(done.stdout.splitlines()[-1])["problems"])
    except (ValueError, IndexError, KeyError, TypeError):
        end = "\n".join((done.stderr or done.stdout).splitlines()[-_LAST_LINES:])
        return [
            {
                "path": "entrypoint",
                "message": f"the process that checks it ended with {done.returncode}:\n{end}",
            }
        ]


def _with_place(file: experiment_file.ExperimentFile, problem: dict[str, Any]) -> errors.Problem:
    path = str(problem.get("path") or "")
    place = f"{file.locate(path)}: {path}" if path in file.lines or path else ""
    return errors.Problem(place, str(problem["message"]), bool(problem.get("is_unknown")))
