"""Checks a user's code in a process of its own, before an experiment is created."""

import contextlib
import json
import pathlib
import sys
import tempfile
import threading
from typing import Any, Final

from quintain import errors
from quintain.cli.experiment import file as experiment_file
from quintain.master.processes import (
    launch_environment,
    process_files,
    process_launcher,
    supervisor,
)
from quintain.records.rows import codec

_TIMEOUT_SECS: Final = 300.0
_MODULE: Final = "quintain.trials.process.code_check"


class ModelCheck:
    """A check that runs while other things start."""

    def __init__(
        self,
        file: experiment_file.ExperimentFile,
        model_dir: pathlib.Path | None,
        launcher: process_launcher.ProcessLauncher,
    ) -> None:
        """Starts to check that the entrypoint is complete and the hyperparameters fit it.

        Args:
            file: The config.
            model_dir: Directory with the user's code.
            launcher: Starts the process, as it starts those of trials.
        """
        self._file = file
        self._launcher = launcher
        self._model_dir = "" if model_dir is None else str(model_dir.absolute())
        self._is_canceled = threading.Event()
        self._problems: list[dict[str, Any]] = []
        self._settings: dict[str, Any] = {}
        self._failure: errors.ClusterError | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def finish(self) -> list[str]:
        """Waits for the end of the check.

        Returns:
            What follows from the kind of trial, as `path=value` texts for the config.

        Raises:
            ConfigError: Listing all that is wrong.
            ClusterError: If no process can be started.
        """
        self._thread.join(_TIMEOUT_SECS)
        if self._thread.is_alive():
            self.cancel()
            raise errors.ConfigError(
                f"{self._file.locate('entrypoint')}: entrypoint: importing it took more than "
                f"{_TIMEOUT_SECS:.0f} s; --no-check skips this."
            )
        if self._failure is not None:
            raise self._failure
        problems = [_with_place(self._file, problem) for problem in self._problems]
        if problems:
            raise errors.ConfigError.from_problems(problems)
        return [f"{path}={json.dumps(value)}" for path, value in self._settings.items()]

    def cancel(self) -> None:
        """Ends the check, if it runs."""
        self._is_canceled.set()
        self._thread.join()

    def _run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="quintain-check-") as directory:
            folder = pathlib.Path(directory)
            config = codec.to_plain(self._file.config.as_dict())
            variables = launch_environment.of_experiment(self._file.config.environment)
            content = {"config": config, "model_dir": self._model_dir or None}
            (folder / "request.json").write_text(json.dumps(content))
            try:
                exit_ = self._launcher.run_aside(
                    supervisor.StartRequest(
                        launch_id="check",
                        scratch_dir=directory,
                        environment={**variables, "QUINTAIN_CHECK": directory},
                        entry_point=f"{_MODULE}:main",
                        command=(sys.executable, "-m", _MODULE),
                    ),
                    self._model_dir,
                    self._is_canceled,
                )
            except errors.ClusterError as error:
                self._failure = error
            else:
                self._problems = _read_problems(folder, exit_)
                with contextlib.suppress(FileNotFoundError):
                    self._settings = json.loads((folder / "settings.json").read_text())


def _read_problems(folder: pathlib.Path, exit_: process_files.Exit) -> list[dict[str, Any]]:
    """Returns what the process found."""
    with contextlib.suppress(FileNotFoundError):
        return list(json.loads((folder / "problems.json").read_text()))
    code = exit_.exit_code if exit_.signal is None else -exit_.signal
    end = "\n".join(exit_.last_lines)
    return [
        {"path": "entrypoint", "message": f"the process that checks it ended with {code}:\n{end}"}
    ]


def _with_place(file: experiment_file.ExperimentFile, problem: dict[str, Any]) -> errors.Problem:
    path = str(problem.get("path") or "")
    place = f"{file.locate(path)}: {path}" if path in file.lines or path else ""
    return errors.Problem(place, str(problem["message"]), bool(problem.get("is_unknown")))
