"""What to do when a database refuses."""

from typing import Final

from quintain import errors
from quintain.store import lock_holders

TOO_LARGE: Final = "got a number of more than 64 bits; there is none."
"""What is said of a number that no column holds."""


def explain(text: str, place: str) -> errors.StoreError:
    """Returns the error that tells users what a database said, and what they can do.

    Args:
        text: The message of the database.
        place: Its file, or its address.
    """
    if "locked" in text or "busy" in text:
        holder = lock_holders.describe(place)
        advice = f"{holder} is writing to it; end it, or wait, and try again"
    elif "full" in text or "disk I/O" in text:
        advice = "the disk is full or broken; make room and try again"
    elif "malformed" in text or "not a database" in text:
        advice = (
            "the file is damaged, or no database of this package. Move it away together with the "
            f"files {place}-wal and {place}-shm, and put a copy of yours in its place, if you have "
            "one; or start without, by `quintain master start --new_database`. Either way no "
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


def refuse(said: str, place: str) -> errors.DataError:
    """Returns the error that says that the database is well, but does not take what it was given.

    Others can still store theirs.

    Args:
        said: The message of the database.
        place: Its file, or its address.
    """
    return errors.DataError(f"{place}: the database said {said!r}: this can't be stored.")
