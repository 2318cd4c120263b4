"""Launches of trials as the store keeps them: their processes, slots and times."""

import dataclasses
import enum
import re
from typing import Final

from quintain.records.rows import node as node_lib
from quintain.records.rows import trial


class LaunchState(enum.StrEnum):
    """States of a launch."""

    LAUNCHING = "launching"
    """It was started, and has not asked for its trial yet."""

    RUNNING = "running"
    """It works."""

    ENDING = "ending"
    """It was told to end."""


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One process of a launch."""

    node: str
    slots: tuple[int, ...] = ()
    """Numbers of the slots that it uses."""

    identity: trial.ProcessIdentity | None = None
    """The process, or None before it was started."""


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a trial: a process, or several that work on it together."""

    launch_id: str
    trial_id: int
    experiment_id: int
    slots: tuple[int, ...]
    """Numbers of the slots that it holds, of all its processes."""

    state: LaunchState
    identity: trial.ProcessIdentity | None
    """The first process, or None before it was started."""

    start_time: float
    """Seconds since the epoch."""

    node: str = node_lib.OWN
    """Machine of the first process."""

    others: tuple[Member, ...] = ()
    """The processes after the first one."""

    @property
    def members(self) -> tuple[Member, ...]:
        """All processes; the place of each is its rank."""
        num_others = sum(len(member.slots) for member in self.others)
        own = self.slots[: len(self.slots) - num_others]
        return (Member(self.node, own, self.identity), *self.others)

    def with_identity(self, rank: int, identity: trial.ProcessIdentity | None) -> "Launch":
        """Returns the same launch with the identity of one of its processes."""
        if rank == 0:
            return dataclasses.replace(self, identity=identity)
        others = list(self.others)
        others[rank - 1] = dataclasses.replace(others[rank - 1], identity=identity)
        return dataclasses.replace(self, others=tuple(others))


@dataclasses.dataclass(frozen=True)
class Span:
    """Time in which one launch held its slots; it is kept when the process has ended."""

    launch_id: str
    trial_id: int
    experiment_id: int
    slots: tuple[int, ...]
    start_time: float
    """Seconds since the epoch."""

    end_time: float | None = None
    """Seconds since the epoch, when the master knew of the end; None while it runs."""


_MEMBER: Final = re.compile(r"(.+)\.r([1-9][0-9]{0,5})")


def member_name(launch_id: str, rank: int) -> str:
    """Returns the name of one of the processes of a launch.

    Example:
        >>> member_name("t3-1f", 0), member_name("t3-1f", 2)
        ('t3-1f', 't3-1f.r2')
    """
    return f"{launch_id}.r{rank}" if rank else launch_id


def split_member(name: str) -> tuple[str, int]:
    """Returns the launch that a process belongs to, and its rank there.

    Example:
        >>> split_member("t3-1f.r2")
        ('t3-1f', 2)
    """
    found = _MEMBER.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 0)
