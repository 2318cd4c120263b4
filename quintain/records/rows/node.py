"""Machines that start processes for a master, beside its own."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from quintain.records.rows import slot

OWN: Final = ""
"""Name of the machine of the master itself."""

OWN_TITLE: Final = "master"
"""What users call it; no other machine may be called so."""


class NodeState(enum.StrEnum):
    """States of a machine."""

    ACTIVE = "ACTIVE"
    """Trials are started on it."""

    DRAINING = "DRAINING"
    """It is about to leave, or a user wants it empty: its trials save themselves and go on
    elsewhere, and none is started on it."""

    LOST = "LOST"
    """Nothing was heard of it for too long: its trials go on elsewhere from their last
    checkpoints."""


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """One machine."""

    name: str
    """What no other machine of the cluster is called."""

    slots: tuple[slot.Slot, ...] = ()
    """Its shares. Their numbers count from 0 on each machine; the master gives each a number of its
    own (`master.placing.node_table`)."""

    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What experiments choose machines by (`resources.node_labels`)."""

    state: NodeState = NodeState.ACTIVE
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class KnownNode:
    """Record of a machine that has called once, whether it is there or not."""

    name: str
    slots: tuple[slot.Slot, ...] = ()
    """Its shares, by the numbers that the master gave them; they stay when it leaves."""

    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What experiments choose machines by."""

    is_drained: bool = False
    """Whether a user wants it empty."""


@dataclasses.dataclass(frozen=True)
class NodeStatus:
    """One machine, as users see it."""

    name: str
    """Its name; that of the master's own is `master`."""

    state: NodeState
    reason: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What experiments choose machines by."""

    slots: tuple[int, ...] = ()
    num_held: int = 0
    """How many of them are held by trials."""

    trials: tuple[int, ...] = ()
    """Trials that have a process there."""


def title_of(name: str) -> str:
    """Returns what users call a machine."""
    return name or OWN_TITLE
