"""Record of how a training was started: `environment.json` in its directory.

It is for people who look at a run later. Nothing that goes wrong with it stops a training, and what
takes time is found out while the model is built.
"""

import importlib.metadata
import json
import logging
import os
import platform
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import quintain
from quintain import errors
from quintain.files import file_io, file_paths, whole_files
from quintain.kernels import selection

FILE_NAME: Final = "environment.json"
MAX_STARTS: Final = 20
"""Starts of a run that are remembered, the first and the newest."""

_PACKAGES: Final = ("tensorflow", "keras", "tensorflow-text", "numpy", "sentencepiece", "sacrebleu")
_GIT_SECS: Final = 2.0
_MAX_COMMAND: Final = 10_000

logger = logging.getLogger(__name__)


class Environment:
    """Finds out, in the background, from which commit the code in this directory comes."""

    def __init__(self) -> None:
        self._start_time = time.time()
        self._git: dict[str, Any] = {}
        self._looking = threading.Thread(target=self._look_at_git, daemon=True)
        self._looking.start()

    def restart_clock(self) -> None:
        """Takes this moment for the start of the run, as a standby does that takes over."""
        self._start_time = time.time()

    def record(self, model_dir: str, sources: Mapping[str, str]) -> None:
        """Writes what is known beside the settings of a run.

        Args:
            model_dir: Directory of the run.
            sources: What set the fields of its config, by their paths.
        """
        self._looking.join(_GIT_SECS)
        path = file_paths.join(model_dir, FILE_NAME)
        try:
            starts = [*_read_starts(path), self._describe(sources)]
            kept = starts if len(starts) <= MAX_STARTS else [starts[0], *starts[1 - MAX_STARTS :]]
            whole_files.write(path, json.dumps({"starts": kept}, indent=1))
        except (*whole_files.ERRORS, errors.QuintainError) as error:
            logger.warning("How this run was started is not written down: %s", error)

    def _describe(self, sources: Mapping[str, str]) -> dict[str, Any]:
        command = shlex.join([file_paths.basename(sys.argv[0] or "python"), *sys.argv[1:]])
        return {
            "time": self._start_time,
            "command": command[:_MAX_COMMAND],
            "directory": os.getcwd(),
            "host": socket.gethostname(),
            "num_cpus": os.cpu_count(),
            "platform": platform.platform(),
            "python": platform.python_version(),
            "kernels": selection.describe(),
            "versions": {"quintain": quintain.__version__, **find_versions()},
            "git": self._git,
            "sources": dict(sources),
        }

    def _look_at_git(self) -> None:
        """Finds the commit of the working directory, if git keeps it, and what was changed."""
        commit = _ask_git("rev-parse", "HEAD")
        if commit:
            changes = _ask_git("status", "--porcelain", "--untracked-files=no")
            self._git = {
                "commit": commit,
                "changed_files": None if changes is None else changes.splitlines()[:100],
            }


def read_start_times(model_dir: str) -> list[float]:
    """Returns when the processes of a run were started, as far as it is known, in order."""
    starts = _read_starts(file_paths.join(model_dir, FILE_NAME))
    times = [one.get("time") for one in starts if isinstance(one, dict)]
    return sorted(float(one) for one in times if isinstance(one, int | float))


def _read_starts(path: str) -> list[dict[str, Any]]:
    """Returns the starts that are on record; none if the file is missing or damaged."""
    if not file_io.exists(path):
        return []
    try:
        starts = whole_files.read_json(path)["starts"]
    except (errors.DamagedFileError, LookupError, TypeError):
        return []
    return starts if isinstance(starts, list) else []


def find_versions() -> dict[str, str]:
    """Returns the versions of the packages that a training uses, by name."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # Not every one is needed.
    return found


def _ask_git(*arguments: str) -> str | None:
    """Returns what git says of the working directory; None if it says nothing."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_GIT_SECS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
