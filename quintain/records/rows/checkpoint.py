"""Checkpoints of trials as the store keeps them."""

import dataclasses
import enum
from typing import Any


class CheckpointState(enum.StrEnum):
    """States of a checkpoint."""

    COMPLETED = "COMPLETED"
    """Its files are there."""

    DELETED = "DELETED"
    """Its files were deleted, by garbage collection or a user, or are about to be."""

    DAMAGED = "DAMAGED"
    """Files are missing or are not what was written; `metadata` says which."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """One saved state of a trial."""

    uuid: str
    """Name of its directory in the checkpoint storage."""

    trial_id: int
    experiment_id: int
    total_batches: int
    state: CheckpointState = CheckpointState.COMPLETED
    """Whether it can be used."""

    files: dict[str, int] = dataclasses.field(default_factory=dict)
    """Sizes in bytes by path; directories end in `/`."""

    metric: float | None = None
    """The searched metric at this state, or None if it was not validated."""

    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Remarks: `damage`, what is wrong with its files; `is_adopted`, whether a user gave it to the
    store, which then does not delete it by itself."""

    time: float = 0.0
    """Seconds since the epoch, when it was saved."""

    @property
    def num_bytes(self) -> int:
        """Size of all files."""
        return sum(self.files.values())

    @property
    def is_adopted(self) -> bool:
        """True if a user gave it to the store; it is kept until a user deletes it."""
        return bool(self.metadata.get("is_adopted"))


@dataclasses.dataclass(frozen=True)
class Orphan:
    """A directory among the checkpoints that the store does not know."""

    path: str
    num_bytes: int
    """Size of all files in it."""

    time: float
    """Seconds since the epoch, when it was changed last."""

    home_id: str | None = None
    """The home that it names; empty if it names none, None if it has no manifest."""

    experiment_id: int | None = None
    trial_id: int | None = None
    total_batches: int | None = None
    launch_id: str = ""
    """The process that wrote it."""

    problem: str = ""
    """Why it can't be adopted; empty if it can."""

    @property
    def name(self) -> str:
        """Name of the directory: the UUID of a checkpoint, or of something unfinished."""
        return self.path.rpartition("/")[2]


def is_uuid_prefix(text: str, uuid: str) -> bool:
    """Returns whether a text is a prefix of a UUID that may stand for it: four letters or more."""
    return len(text) >= 4 and uuid.startswith(text)
