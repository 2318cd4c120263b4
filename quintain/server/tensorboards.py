"""TensorBoards that the page opens: a process for each set of trials and runs.

Each is `quintain tensorboard`, and ends when its standard input is closed: with the master, however
that ends.
"""

import contextlib
import dataclasses
import json
import pathlib
import select
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import Final

from quintain.client.home import home as home_lib
from quintain.server.security import own_commands

MAX_PROCESSES: Final = 4
"""Most that run at a time; the one that was opened first ends for another."""

_START_SECS: Final = 120.0
_END_SECS: Final = 5.0


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
                own_commands.build("tensorboard", "--json", "--until-stdin-closes", *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=problems,
                env=own_commands.build_environment(self._home),
                start_new_session=True,
            )
            line = _read_line(process)
            try:
                return _Board(process, str(json.loads(line)["url"]))
            except (ValueError, LookupError, TypeError):
                code = _end(process)
                raise own_commands.explain(problems, code, "TensorBoard does not start") from None


def _read_line(process: subprocess.Popen[bytes]) -> bytes:
    """Returns the line that a process writes; nothing if it writes none in time."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], _START_SECS)
    return process.stdout.readline() if ready else b""


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
