"""Tombstones: directories that are to be deleted, noted before the first file goes.

What is noted outlives whoever deletes: a deletion that was interrupted is finished later. And
nothing is deleted that was not noted, by its exact name.
"""

import dataclasses
import enum


class DeletionKind(enum.StrEnum):
    """Kinds of directories that are deleted."""

    CHECKPOINT = "checkpoint"
    """A checkpoint of a trial."""

    UNFINISHED = "unfinished"
    """What a process that is dead had begun to save."""

    ORPHAN = "orphan"
    """What the store did not know, and a user has named."""

    EXPERIMENT = "experiment"
    """The code, or scratch files, of an experiment that is deleted."""

    SCRATCH = "scratch"
    """Scratch files of a process of an experiment that has ended."""


@dataclasses.dataclass(frozen=True)
class Deletion:
    """One directory that is to be deleted."""

    id: int
    """Number of the note; 0 before it is stored."""

    kind: DeletionKind
    root: str
    """The directory in which it lies; relative to the home unless it is elsewhere."""

    name: str
    """Its name there."""

    experiment_id: int
    """The experiment that it belonged to."""

    time: float
    """Seconds since the epoch, when it was noted."""
