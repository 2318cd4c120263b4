"""Errors of an SQLite file and of the disk below it, with advice."""

import errno
import os
from typing import Final

from quintain import errors
from quintain.files import changing_files, disk_errors
from quintain.store import lock_holders

TOO_LARGE: Final = "got a number of more than 64 bits; there is none."
"""What is said of a number that no column holds."""

_OF_DISKS: Final = ("disk I/O", "readonly", "unable to open", "malformed", "not a database")
"""What SQLite says, among other reasons, of a file whose disk is gone, broken or read-only."""

_OF_DAMAGE: Final = ("malformed", "not a database")


def explain(text: str, place: str) -> errors.StoreError:
    """Returns the error that tells users what an SQLite file said, and what they can do."""
    if "full" in text:
        return errors.StoreFullError(
            f"{place}: the database said {text!r}: its disk is full. Make room there, and it goes "
            "on."
        )
    if any(words in text for words in _OF_DISKS):
        disk_error = find_disk_error(place)
        if disk_error is not None:
            return disk_error
    if "locked" in text or "busy" in text:
        holder = lock_holders.describe(place)
        advice = f"{holder} is writing to it; end it, or wait, and try again"
    elif "disk I/O" in text:
        advice = "its disk fails: look at the log of the system, and try again"
    elif is_damage(text):
        advice = (
            "the file is damaged, or no database of this package. Move it away together with the "
            f"files {place}-wal and {place}-shm, and put a copy of yours in its place, if you have "
            "one; or start without, by `quintain master start --new-database`. Either way no "
            "checkpoint is deleted, and `quintain checkpoint orphans` lists those that the "
            "database does not know"
        )
    elif "readonly" in text or "unable to open" in text:
        advice = (
            "check that the file and its directory may be written. On a read-only disk it can be "
            "read if its master has ended in order and was of this version; otherwise copy the "
            "home directory to another disk first"
        )
    else:
        advice = "nothing of this transaction was kept"
    return errors.StoreError(f"{place}: the database said {text!r}: {advice}.")


def is_damage(text: str) -> bool:
    """Returns whether an SQLite file's error means that its content is damaged."""
    return any(words in text for words in _OF_DAMAGE)


def find_disk_error(place: str) -> errors.StoreAwayError | None:
    """Returns what is wrong with the disk of a file; None if it can be written to.

    The file itself is not opened: closing it again would take its locks from this process.
    """
    try:
        os.stat(place)
        disk_errors.check_disk(os.path.dirname(place) or os.curdir)
    except OSError as error:
        return explain_disk(error, place)
    return None


def explain_disk(error: OSError, place: str) -> errors.StoreAwayError | None:
    """Returns the error that tells users that a disk is lost or full, and what they can do.

    Args:
        error: What the system says.
        place: What is on the disk: the file of a database, or the home directory.

    Returns:
        None if the disk is not to blame.
    """
    where = place if error.filename is None else os.fsdecode(error.filename)
    if disk_errors.is_full(error):
        return errors.StoreFullError(
            f"{where}: {error.strerror}. Make room on that disk, and it goes on."
        )
    if changing_files.is_gone(error) and not os.path.exists(place):
        return errors.StoreAwayError(
            f"{place}: it is not there any more. See whether its disk is mounted, and put it back."
        )
    if not disk_errors.is_lost(error):
        return None
    if error.errno == errno.EROFS:
        return errors.StoreAwayError(
            f"{where}: its disk is read-only. Make it writable (`mount -o remount,rw`), and it "
            "goes on. A database there can be read if its master has ended in order; otherwise "
            "copy the home directory to another disk first."
        )
    return errors.StoreAwayError(
        f"{where}: {error.strerror}: its disk is broken or gone. Look at the log of the system, "
        "and mount it again; start the master again if it has ended."
    )


def refuse(said: str, place: str) -> errors.DataError:
    """Returns the error that says that the database is well, but does not take what it was given.

    Others can still store theirs.

    Args:
        said: The message of the database.
        place: Its file, or its address.
    """
    return errors.DataError(f"{place}: the database said {said!r}: this can't be stored.")
