"""Machines that start processes for a master, beside its own."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from quintain.records import slot

OWN: Final = ""
"""Name of the machine of the master itself."""


class NodeState(enum.StrEnum):
    """Whether a machine takes trials."""

    ACTIVE = "ACTIVE"
    """Trials are started on it."""

    DRAINING = "DRAINING"
    """It is about to leave, or a user wants it empty: its trials save themselves and go on
    elsewhere, and none is started on it."""

    LOST = "LOST"
    """Nothing was heard of it for too long: its trials go on elsewhere, from their last
    checkpoints."""


@dataclasses.dataclass(frozen=True)
class Node:
    """One machine."""

    name: str
    """What no other machine of the cluster is called."""

    slots: tuple[slot.Slot, ...] = ()
    """Its shares. Their numbers count from 0 on each machine; the master gives each a number of its
    own (`scheduler.nodes`)."""

    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What experiments choose machines by (`resources.node_labels`)."""

    state: NodeState = NodeState.ACTIVE
    """Whether it takes trials."""

    reason: str = ""
    """Why it is not active."""
