"""Processes that hold a lock of an SQLite file, for error messages."""

import os
import pathlib
from collections.abc import Iterable

_LOCKS = pathlib.Path("/proc/locks")


def describe(database: str | os.PathLike[str]) -> str:
    """Returns who locks a database: `process 17 (sqlite3)`, or `another program`.

    Args:
        database: The file. Linux tells who locks it and the files beside it; other systems don't.
    """
    pids = find(database)
    if not pids:
        return "another program"
    return " and ".join(f"process {pid}{_describe_program(pid)}" for pid in pids)


def find(database: str | os.PathLike[str]) -> list[int]:
    """Returns the numbers of the other processes that hold a lock to write, as far as known."""
    files = {_find_file(f"{os.fspath(database)}{suffix}") for suffix in ("", "-wal", "-shm")}
    try:
        text = _LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return sorted(
        pid for pid, file in _parse(text.splitlines()) if file in files and pid != os.getpid()
    )


def _parse(lines: Iterable[str]) -> set[tuple[int, str]]:
    """Returns processes that hold a lock to write, with `major:minor:inode` of the file."""
    held = set()
    for line in lines:
        # 1: POSIX  ADVISORY  WRITE 1234 fd:01:5678 120 120
        fields = line.split()
        # A process that waits for a lock has an arrow after the number.
        if len(fields) >= 8 and fields[1] == "POSIX" and fields[3] == "WRITE":
            held.add((int(fields[4]), fields[5]))
    return held


def _find_file(path: str) -> str | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"


def _describe_program(pid: int) -> str:
    try:
        return f" ({pathlib.Path(f'/proc/{pid}/comm').read_text(encoding='utf-8').strip()})"
    except OSError:
        return ""
