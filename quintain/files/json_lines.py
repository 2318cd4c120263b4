"""Records of runs: files with a line of JSON for every step on record.

A power cut may leave the end of such a file torn. That end is left out, with a warning; damage
before whole lines is an error, because nobody knows what it hides.
"""

import functools
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from quintain.files import file_io, whole_files

_FIELDS: Final = {"step": int, "metrics": dict}

logger = logging.getLogger(__name__)


def read(path: str) -> list[dict[str, Any]]:
    """Returns the entries of a file in their order; none if it does not exist.

    Raises:
        DamagedFileError: If a line that is followed by whole ones can't be understood.
    """
    if not file_io.exists(path):
        return []
    with file_io.open(path, "rb") as file:
        *lines, rest = file.read().split(b"\n")
    entries = [_parse(line) for line in lines]
    num_whole = max((n for n, entry in enumerate(entries, start=1) if entry), default=0)
    if rest or num_whole < len(lines):
        _warn_of_torn_end(path, sum(map(len, lines[num_whole:])) + len(rest))
    found = [entry for entry in entries[:num_whole] if entry]
    if len(found) < num_whole:
        number = entries.index(None) + 1
        raise whole_files.damaged(f"{path}:{number}", "it is no record of a step")
    return found


def write(path: str, entries: Iterable[Mapping[str, Any]]) -> None:
    """Writes the entries in place of those that are there.

    Raises:
        OutputError: If the file can't be written; it is then as it was.
    """
    text = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    whole_files.write(path, text, has_rivals=True)


def is_torn(path: str) -> bool:
    """True if a file ends with something that is not a whole entry."""
    if not file_io.exists(path):
        return False
    with file_io.open(path, "rb") as file:
        *lines, rest = file.read().split(b"\n")
    return bool(rest or (lines and _parse(lines[-1]) is None))


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_entry = isinstance(entry, dict) and all(
        isinstance(entry.get(name), kind) for name, kind in _FIELDS.items()
    )
    return entry if is_entry else None


@functools.cache  # Once: a run reads its records again and again.
def _warn_of_torn_end(path: str, num_bytes: int) -> None:
    logger.warning("%s: its last %d bytes are no whole record; they are left out.", path, num_bytes)
