"""Exit codes of trial processes."""

import enum
from typing import Final

DISK_FAILS: Final = "A disk can't be used: "
"""Prefix of the last line of a process that ends by `NO_ROOM`; the place follows."""


class ExitCode(enum.IntEnum):
    """Exit codes of trial processes."""

    DONE = 0
    """It was told to terminate."""

    ERROR = 1
    """The user's code, or the platform's, raised an exception."""

    INVALID_HPARAMS = 3
    """The trial can't do anything with its hyperparameters; starting it again is no use."""

    NOT_WANTED = 4
    """The master did not want this run any more."""

    LOST_MASTER = 5
    """The master was away for too long."""

    UNUSABLE = 6
    """The user's code or config can't be run; starting it again is no use."""

    LOST_MEMBER = 7
    """It could not reach another process of its trial any more, which has probably ended."""

    NO_ROOM = 8
    """A disk was full or lost; there may be room again, or it may come back."""

    OUT_OF_MEMORY = 71
    """There was no memory left."""
