"""Rendezvous: exchange of addresses among the processes that train a trial together.

What they told is kept in a file: a master that is restarted in the middle of it answers those who
still wait, though the others ask no more.
"""

import json
import pathlib
from typing import Any, Final

from quintain import errors
from quintain.files import atomic_write, disk_errors
from quintain.records.rows import codec, trial

MOST_MEMBERS: Final = 4096
"""Most processes of one trial."""

_FILE: Final = "members.json"


def meet(
    directory: pathlib.Path, rank: int, size: int, member: trial.Peer
) -> list[trial.Peer] | None:
    """Notes one process; returns all of them, or None while some are missing.

    The same call again changes nothing. The caller sees to it that there is one at a time.

    Args:
        directory: Scratch directory of this start of the trial.
        rank: Number of the process.
        size: How many there are.
        member: Where it is reached.

    Raises:
        MessageError: If the numbers are not possible.
        StateError: If another process of this start has told another number of them.
    """
    if not 1 < size <= MOST_MEMBERS or not 0 <= rank < size:
        raise errors.MessageError(
            f"rank: got {rank} of size={size}, expected `0 <= rank < size` and `1 < size <= "
            f"{MOST_MEMBERS}`."
        )
    path = directory / _FILE
    known = _load(path)
    plain = codec.to_plain(member)
    if known.setdefault("size", size) != size:
        raise errors.StateError(
            f"rank {rank} of this trial expects {size} processes, another one {known['size']}."
        )
    if known["members"].get(str(rank)) != plain:
        known["members"][str(rank)] = plain
        directory.mkdir(parents=True, exist_ok=True)
        atomic_write.write_atomically(path, json.dumps(known))
    found = known["members"]
    if len(found) < size:
        return None
    return [codec.from_plain(trial.Peer, found[str(number)]) for number in range(size)]


def _load(path: pathlib.Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = disk_errors.read_json(path)
    except FileNotFoundError:
        return {"members": {}}
    return content
