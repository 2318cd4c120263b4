"""Stop of a run of `quintain train` from elsewhere: the signal that Ctrl-C would have been.

Nothing that a run's directory says is enough to signal a process: it has to hold the lock of the
run, as the system knows it, belong to this user, and catch SIGTERM. Only Linux tells all that.
"""

import os
import pathlib
import re
import signal
from typing import Any, Final

from quintain import errors
from quintain.records import process_identity

_LOCK: Final = re.compile(r"^\d+: FLOCK +ADVISORY +WRITE (\d+) [\da-f]+:[\da-f]+:(\d+) ", re.M)
_FIELDS: Final = re.compile(r"^(Uid|SigCgt):\s+(\w+)", re.M)


def can_stop(lock: pathlib.Path, holder: dict[str, Any]) -> bool:
    """Returns whether the process that holds the lock of a run can be asked to stop.

    Args:
        lock: The lock's file.
        holder: What the file says of the process, by `pid`.
    """
    try:
        pid = int(holder["pid"])
        held = _LOCK.findall(pathlib.Path("/proc/locks").read_text())
        fields = dict(_FIELDS.findall(pathlib.Path(f"/proc/{pid}/status").read_text()))
        catches = int(fields["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1
        # Devices are left out: some file systems number them otherwise there.
        is_held = (str(pid), str(lock.lstat().st_ino)) in held
        return is_held and bool(catches) and int(fields["Uid"]) == os.getuid()
    except (LookupError, ValueError, OSError):
        return False  # It has just ended, or the system does not tell.


def stop(lock: pathlib.Path, holder: dict[str, Any]) -> str:
    """Asks the process that holds the lock of a run to stop, as SIGTERM does.

    Args:
        lock: The lock's file.
        holder: What the file says of the process.

    Returns:
        The mark of the process, by which it is known not to be asked again.

    Raises:
        StateError: If there is none that can be stopped from here.
    """
    refusal = errors.StateError(
        f"{lock.parent}: no process of this user on this machine trains there. Stop the run where "
        "it was started, by Ctrl-C."
    )
    try:
        pid = int(holder["pid"])
        descriptor = os.pidfd_open(pid)  # It stands for this process, whoever gets its number.
    except (LookupError, ValueError, TypeError, OSError) as error:
        raise refusal from error
    try:
        mark = process_identity.find_mark(pid)
        if mark is None or not can_stop(lock, holder):
            raise refusal
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except ProcessLookupError as error:
        raise refusal from error
    finally:
        os.close(descriptor)
    return mark
