"""Files about one process in its scratch directory: what it wrote, and how it ended.

They outlive the master: the supervisor of the process writes them, and whoever is the master reads
them. Each name starts with the name of the launch:

| file | content |
|---|---|
| `*.log` | a JSON list `[time, source, text]` for each line of standard output and standard error |
| `*.read` | the number of bytes of `*.log` that a master has read and kept |
| `*.exit` | how the process ended; there as soon as `*.log` is complete |
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Iterable
from typing import Final

from quintain.records import log

_MOST_BYTES_AT_ONCE: Final = 4 * 2**20
_ALLOWED_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True)
class Exit:
    """How a process ended."""

    exit_code: int | None
    """What it returned, or None if a signal ended it."""

    signal: int | None
    """The signal that ended it, or None."""

    last_lines: tuple[str, ...] = ()
    """The last lines of both streams."""

    out_of_memory: bool = False
    """Whether there was no memory left."""


class ProcessFiles:
    """The files of one process.

    Args:
        scratch_dir: Directory of the process.
        launch_id: Name of the launch.

    Raises:
        ValueError: If `launch_id` can't be part of a file name.

    Example:
        >>> ProcessFiles("/tmp/trial", "7-1").log_path.name
        '7-1.log'
    """

    def __init__(self, scratch_dir: str, launch_id: str) -> None:
        if not _ALLOWED_NAME.fullmatch(launch_id):
            raise ValueError(
                f"launch_id: got {launch_id!r}, expected letters, digits, `-`, `_` and `.`."
            )
        self._directory = pathlib.Path(scratch_dir)
        self.log_path = self._directory / f"{launch_id}.log"
        self._read_path = self._directory / f"{launch_id}.read"
        self._exit_path = self._directory / f"{launch_id}.exit"

    def make_directory(self) -> None:
        """Makes the scratch directory."""
        self._directory.mkdir(parents=True, exist_ok=True)

    def write_exit(self, exit_: Exit) -> None:
        """Writes how the process ended, at once."""
        _replace(self._exit_path, json.dumps(dataclasses.asdict(exit_)))

    def read_exit(self) -> Exit | None:
        """Returns how the process ended, or None if nothing is known about that."""
        try:
            content = json.loads(self._exit_path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Exit(**{**content, "last_lines": tuple(content["last_lines"])})

    def read_offset(self) -> int:
        """Returns how many bytes of the log were read and kept."""
        try:
            return int(self._read_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def write_offset(self, offset: int) -> None:
        """Remembers that so many bytes of the log were read and kept."""
        with contextlib.suppress(FileNotFoundError):
            _replace(self._read_path, str(offset))

    def read_lines(self, trial_id: int, offset: int) -> tuple[list[log.LogRow], int]:
        """Reads the lines that begin at an offset of the log.

        Args:
            trial_id: Trial to name in the rows.
            offset: Bytes to skip.

        Returns:
            (rows, offset after them); no rows if there is nothing new.
        """
        try:
            with open(self.log_path, "rb") as file:
                file.seek(offset)
                data = file.read(_MOST_BYTES_AT_ONCE)
        except (FileNotFoundError, NotADirectoryError):
            return [], offset
        complete = data[: data.rfind(b"\n") + 1]
        return list(_parse(trial_id, complete.splitlines())), offset + len(complete)

    def read_last_lines(self, count: int) -> tuple[str, ...]:
        """Returns the texts of the last lines of the log."""
        with contextlib.suppress(OSError), open(self.log_path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2**16))
            return tuple(row.text for row in _parse(0, file.read().splitlines()))[-count:]
        return ()

    def delete_all_but_exit(self) -> None:
        """Deletes all but the exit, once all of the log was read and kept."""
        self.log_path.unlink(missing_ok=True)
        self._read_path.unlink(missing_ok=True)


def _parse(trial_id: int, lines: Iterable[bytes]) -> Iterable[log.LogRow]:
    for line in lines:
        # The first line of a tail, and the last one before a full disk, may be incomplete.
        with contextlib.suppress(ValueError):
            time, source, text = json.loads(line)
            yield log.LogRow(trial_id, time, log.LogSource(source), text)


def _replace(path: pathlib.Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
