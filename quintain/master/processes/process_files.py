"""Files of one process in its scratch directory: log, read position and exit.

They outlive the master: the supervisor of the process writes them, and whoever is the master reads
them. Each name starts with the name of the launch:

| file | content |
|---|---|
| `*.log` | a JSON list `[time, source, text]` for each line of standard output and standard error |
| `*.read` | the number of bytes of `*.log` that a master has read and kept |
| `*.exit` | how the process ended; there as soon as `*.log` is complete |

A power cut may leave any of them empty or torn. What can't be understood is named in the log: an
exit then counts as one of an unknown kind, lines are read again rather than lost. Lines that can't
be had are counted in the log of the trial.
"""

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import re
import time
from collections.abc import Iterable
from typing import Any, Final

from quintain import errors
from quintain.files import atomic_write, disk_errors
from quintain.records.rows import log

logger = logging.getLogger(__name__)

MOST_BYTES_AT_ONCE: Final = 4 * 2**20
"""Bytes that are read of a log at once, unless told otherwise."""

_PATIENCE_SECS: Final = 30.0
"""A log that can't be read is tried again for so long after its process has ended."""

_NUM_LAST_LINES: Final = 20
_ALLOWED_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True)
class Exit:
    """End of a process."""

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
        atomic_write.write_atomically(self._exit_path, json.dumps(dataclasses.asdict(exit_)))

    def read_exit(self) -> Exit | None:
        """Returns how the process ended, or None if nothing is known about that."""
        if not self._exit_path.is_file():
            return None
        content = _read(self._exit_path, dict)
        try:
            return Exit(**{**content, "last_lines": tuple(content["last_lines"])})
        except (TypeError, KeyError):
            # It has ended, for else there were no such file.
            return Exit(None, None, self.read_last_lines(_NUM_LAST_LINES))

    def read_offset(self) -> int:
        """Returns how many bytes of the log were read and kept."""
        return _read(self._read_path, int) or 0

    def write_offset(self, offset: int) -> None:
        """Remembers that so many bytes of the log were read and kept.

        Where there is no room for that, or the disk is lost, a later master may keep some of them
        twice.
        """
        try:
            atomic_write.write_atomically(self._read_path, json.dumps(offset))
        except OSError as error:
            is_gone = isinstance(error, FileNotFoundError)
            if not (is_gone or disk_errors.is_full(error) or disk_errors.is_lost(error)):
                raise

    def read_lines(
        self, trial_id: int, offset: int, *, most_bytes: int | None = None
    ) -> tuple[list[log.LogRow], int]:
        """Reads the lines that begin at an offset of the log.

        Args:
            trial_id: Trial to name in the rows.
            offset: Bytes to skip.
            most_bytes: Bytes to read at most, more than any line has; 4 MiB if None.

        Returns:
            (rows, offset after them); no rows if there is nothing new.
        """
        try:
            with open(self.log_path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < offset:
                    logger.warning(
                        "%s was cut: it has %d bytes, of which %d were read. It is read from its "
                        "end.",
                        self.log_path,
                        size,
                        offset,
                    )
                    return [], size
                file.seek(offset)
                most_bytes = most_bytes or MOST_BYTES_AT_ONCE
                data = file.read(most_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return [], offset
        is_line = b"\n" in data or len(data) < most_bytes
        # No line is that long: these are empty blocks.
        complete = data[: data.rfind(b"\n") + 1] if is_line else data
        # A power cut may have left empty blocks.
        lines = [line for each in complete.splitlines() if (line := each.lstrip(b"\0"))]
        rows = list(_parse(trial_id, lines))
        if len(rows) < len(lines):
            count = len(lines) - len(rows)
            rows.insert(
                0, _tell(trial_id, f"{count} lines omitted: {self.log_path.name} is damaged.")
            )
        return rows, offset + len(complete)

    def count_unread(self, offset: int) -> int:
        """Returns how many bytes of the log come after an offset."""
        try:
            return max(self.log_path.stat().st_size - offset, 0)
        except OSError:
            return 0

    def read_last_lines(self, count: int) -> tuple[str, ...]:
        """Returns the texts of the last lines of the log."""
        with contextlib.suppress(OSError), open(self.log_path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2**16))
            return tuple(row.text for row in _parse(0, file.read().splitlines()))[-count:]
        return ()

    def delete(self) -> None:
        """Deletes all of them, once the whole log and the exit were read and kept."""
        for path in (self.log_path, self._read_path, self._exit_path):
            path.unlink(missing_ok=True)


class LogReader:
    """Reads one log to its end, and says in it what can't be read.

    Attributes:
        offset: Bytes that were read.
        is_at_end: Whether the process has ended and nothing is left to be read.
    """

    def __init__(self, files: ProcessFiles, trial_id: int, offset: int = 0) -> None:
        self._files = files
        self._trial_id = trial_id
        self.offset = offset
        self.is_at_end = False
        self._failed_secs: float | None = None

    @property
    def is_nearly_read(self) -> bool:
        """True if the next call reads to the end of what is there now."""
        is_readable = self._failed_secs is None
        is_short = self._files.count_unread(self.offset) < MOST_BYTES_AT_ONCE
        return self.is_at_end or (is_readable and is_short)

    def read(self, *, is_over: bool, most_bytes: int = MOST_BYTES_AT_ONCE) -> list[log.LogRow]:
        """Returns the next lines: some of a process that goes on, all of one that has ended.

        Args:
            is_over: Whether the process has ended.
            most_bytes: Bytes after which reading stops; one more piece of as many may be read.

        Raises:
            OSError: If the log can't be read now. When the process has ended and this lasts, a line
                says how much is omitted.
        """
        begin, rows = self.offset, list[log.LogRow]()
        while not self.is_at_end and self.offset - begin < most_bytes:
            former = self.offset
            try:
                found, self.offset = self._files.read_lines(
                    self._trial_id, former, most_bytes=most_bytes
                )
            except OSError as error:
                if not (is_over and self._is_patience_over()):
                    if rows:
                        break
                    raise
                return [*rows, self._skip_rest(str(error))]
            self._failed_secs = None
            rows += found
            if not is_over:
                break
            if self.offset == former:
                if self._files.count_unread(former):
                    rows.append(self._skip_rest("the last line is incomplete"))
                self.is_at_end = True
        return rows

    def _is_patience_over(self) -> bool:
        now_secs = time.monotonic()
        self._failed_secs = now_secs if self._failed_secs is None else self._failed_secs
        return now_secs - self._failed_secs > _PATIENCE_SECS

    def _skip_rest(self, why: str) -> log.LogRow:
        count = self._files.count_unread(self.offset)
        self.offset, self.is_at_end = self.offset + count, True
        return _tell(self._trial_id, f"{count} bytes of the log omitted: {why}.")


def _tell(trial_id: int, text: str) -> log.LogRow:
    return log.LogRow(trial_id, time.time(), log.LogSource.MASTER, text)


def _parse(trial_id: int, lines: Iterable[bytes]) -> Iterable[log.LogRow]:
    for line in lines:
        # The first line of a tail, and the last one before a full disk or a power cut, may be
        # incomplete.
        with contextlib.suppress(ValueError, TypeError):
            time, source, text = json.loads(line)
            yield log.LogRow(trial_id, float(time), log.LogSource(source), str(text))


def _read(path: pathlib.Path, kind: type[Any]) -> Any:
    """Returns what a file says, or None if there is none or it can't be understood."""
    try:
        content = disk_errors.read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, errors.DamagedFileError) as error:
        logger.warning("%s", error)
        return None
    if not isinstance(content, kind):
        logger.warning("%s: got %r, expected a %s.", path, content, kind.__name__)
        return None
    return content
