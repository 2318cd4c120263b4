"""TensorBoards that the page opens: a process for each set of trials and runs.

Each is `quintain tensorboard`, and ends when its standard input is closed: with the master, however
that ends.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Final

import quintain
from quintain import errors
from quintain.client import home as home_lib

MAX_PROCESSES: Final = 4
"""Most that run at a time; the one that was opened first ends for another."""

_START_SECS: Final = 120.0
_END_SECS: Final = 5.0
_MAX_PROBLEM: Final = 2000
_BAD_INPUT: Final = 2
"""Exit code of a command that was asked for what it can't do."""


@dataclasses.dataclass(frozen=True)
class _Board:
    process: subprocess.Popen[bytes]
    url: str


class TensorBoards:
    """Starts TensorBoards for the page.

    Args:
        home: The home directory, whose trials they show.
    """

    def __init__(self, home: home_lib.Home) -> None:
        self._home = home
        self._boards: dict[tuple[str, ...], _Board] = {}
        self._lock = threading.Lock()

    def open(
        self,
        *,
        experiment_id: int | None,
        trial_ids: Sequence[int],
        run_dirs: Sequence[pathlib.Path],
    ) -> str:
        """Returns the address of a TensorBoard that shows this; it is started if there is none.

        Raises:
            ConfigError: If it can't show that; the message is its own.
            ClusterError: If it does not start.
        """
        arguments = [] if experiment_id is None else [f"--experiment={experiment_id}"]
        arguments += [f"--trial={trial_id}" for trial_id in sorted(set(trial_ids))]
        arguments += [f"--run={path}" for path in sorted(set(run_dirs))]
        key = tuple(arguments)
        with self._lock:
            board = self._boards.pop(key, None)
            if board is None or board.process.poll() is not None:
                while len(self._boards) >= MAX_PROCESSES:
                    _end(self._boards.pop(next(iter(self._boards))).process)
                board = self._start(arguments)
            self._boards[key] = board
            return board.url

    def close(self) -> None:
        """Ends all of them."""
        with self._lock:
            for board in self._boards.values():
                _end(board.process)
            self._boards.clear()

    def _start(self, arguments: Sequence[str]) -> _Board:
        with tempfile.TemporaryFile() as problems:
            process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "quintain.cli.main", "tensorboard"),
                    *("--json", "--until_stdin_closes"),
                    *arguments,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=problems,
                env=self._build_environment(),
                start_new_session=True,
            )
            line = _read_line(process)
            try:
                return _Board(process, str(json.loads(line)["url"]))
            except (ValueError, LookupError, TypeError):
                code = _end(process)
                problem = _read_end(problems)
            if code == _BAD_INPUT:
                raise errors.ConfigError(problem.removeprefix("Error: "))
            raise errors.ClusterError(f"TensorBoard does not start: {problem}")

    def _build_environment(self) -> dict[str, str]:
        root = str(pathlib.Path(quintain.__file__).parents[1])
        paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            home_lib.HOME_VARIABLE: str(self._home.path),
        }


def _read_line(process: subprocess.Popen[bytes]) -> bytes:
    """Returns the line that a process writes; nothing if it writes none in time."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], _START_SECS)
    return process.stdout.readline() if ready else b""


def _read_end(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _MAX_PROBLEM, 0))
    return file.read().decode("utf-8", errors="replace").strip()


def _end(process: subprocess.Popen[bytes]) -> int:
    """Ends a process, which is told by its standard input, and returns its exit code."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_END_SECS)
    except subprocess.TimeoutExpired:
        process.kill()
    process.stdout.close()
    return process.wait()
