"""Checks a user's code in a process of its own, before an experiment is created."""

import json
import pathlib
import subprocess
import sys
import threading
from typing import Any, Final

from quintain import errors
from quintain.cli.experiment import file as experiment_file
from quintain.records import codec

_TIMEOUT_SECS: Final = 300.0
_LAST_LINES: Final = 20


class ModelCheck:
    """A check that runs while other things start."""

    def __init__(
        self, file: experiment_file.ExperimentFile, model_dir: pathlib.Path | None
    ) -> None:
        """Starts to check that the entrypoint is complete and the hyperparameters fit it.

        Args:
            file: The config.
            model_dir: Directory with the user's code.
        """
        self._file = file
        request = {
            "config": codec.to_plain(file.config.as_dict()),
            "model_dir": None if model_dir is None else str(model_dir.absolute()),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "quintain.trials.model_check"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._output: tuple[str, str] = ("", "")
        self._thread = threading.Thread(target=self._communicate, args=(json.dumps(request),))
        self._thread.start()

    def finish(self) -> None:
        """Waits for the end of the check.

        Raises:
            ConfigError: Listing all that is wrong.
        """
        self._thread.join(_TIMEOUT_SECS)
        if self._thread.is_alive():
            self.cancel()
            raise errors.ConfigError(
                f"{self._file.locate('entrypoint')}: entrypoint: importing it took more than "
                f"{_TIMEOUT_SECS:.0f} s; --no_check skips this."
            )
        found = _read_problems(self._process.returncode, *self._output)
        problems = [_with_place(self._file, problem) for problem in found]
        if problems:
            raise errors.ConfigError.from_problems(problems)

    def cancel(self) -> None:
        """Ends the check, if it runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._thread.join()

    def _communicate(self, request: str) -> None:
        self._output = self._process.communicate(request)


def _read_problems(code: int, stdout: str, stderr: str) -> list[dict[str, Any]]:
    """Returns what the process found: the last line of its output."""
    try:
        return list(json.loads(stdout.splitlines()[-1])["problems"])
    except (ValueError, IndexError, KeyError, TypeError):
        end = "\n".join((stderr or stdout).splitlines()[-_LAST_LINES:])
        return [
            {
                "path": "entrypoint",
                "message": f"the process that checks it ended with {code}:\n{end}",
            }
        ]


def _with_place(file: experiment_file.ExperimentFile, problem: dict[str, Any]) -> errors.Problem:
    path = str(problem.get("path") or "")
    place = f"{file.locate(path)}: {path}" if path in file.lines or path else ""
    return errors.Problem(place, str(problem["message"]), bool(problem.get("is_unknown")))
