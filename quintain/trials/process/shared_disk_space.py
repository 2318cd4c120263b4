"""Agreement of several processes that all have disk space to save one trial.

A process whose disk is full in the middle of saving can't begin again alone: the others are at
another point, and wait for it. So all find out before they save whether each has room, and wait
together until it has.
"""

import pathlib
import shutil
import socket
from collections.abc import Callable
from typing import Final

from quintain import errors
from quintain.files import disk_errors
from quintain.storage import retries
from quintain.trials import distributed_context

SPARE_BYTES: Final = 16 * 2**20
"""Room beside that for what is to be saved."""


def wait(
    distributed: distributed_context.DistributedContext,
    open_place: Callable[[], pathlib.Path],
    num_bytes: int,
) -> None:
    """Waits until the disks of all processes have space; all of them call it at the same point.

    Args:
        distributed: The processes.
        open_place: Makes, if need be, and returns the directory that this one is to write to.
        num_bytes: What this one wrote when it saved last, or is going to write, as far as that is
            known.
    """

    def look() -> None:
        lacks = distributed.allgather(_find_lack(open_place, num_bytes + SPARE_BYTES))
        if any(lacks):
            raise errors.NoRoomError(next(filter(None, lacks)))

    if distributed.size > 1:
        retries.outlast_full_disks(look, doing="saving a checkpoint together with others")


def _find_lack(open_place: Callable[[], pathlib.Path], num_bytes: int) -> str:
    """Returns the reason for which so much can't be written, or an empty text."""
    try:
        place = open_place()
        disk_errors.check_disk(place)
    except (OSError, errors.NoRoomError) as error:
        if not retries.is_about_room(error):
            raise
        return f"{socket.gethostname()}: {retries.describe(error)}"
    free = shutil.disk_usage(place).free
    if free >= num_bytes:
        return ""
    return (
        f"{socket.gethostname()}: {place}: the disk is full: {free / 2**20:.0f} MiB are free, "
        f"{num_bytes / 2**20:.0f} MiB are needed. Free some space there."
    )
