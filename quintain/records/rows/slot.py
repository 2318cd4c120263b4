"""Slots: the shares of machines that trials are given."""

import dataclasses
import enum


class SlotKind(enum.StrEnum):
    """Kinds of slots."""

    CPU = "cpu"
    """Some CPU threads."""

    GPU = "gpu"
    """One GPU, with some CPU threads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """One share of a machine."""

    id: int
    kind: SlotKind = SlotKind.CPU
    device: str = ""
    """Number or UUID of the GPU as CUDA names it; empty for shares of the CPU."""

    num_threads: int | None = None
    """CPU threads of the slot; None for TensorFlow's choice."""

    node: str = ""
    """Name of the machine; empty for that of the master."""
