"""Effects of an event on an experiment, for the store."""

import dataclasses


@dataclasses.dataclass
class Effects:
    """Effects of an event on an experiment."""

    created: list[str] = dataclasses.field(default_factory=list)
    """New trials, in order."""

    changed: dict[str, None] = dataclasses.field(default_factory=dict)
    """Trials that are not what they were, in order."""

    rolled_back: dict[str, int] = dataclasses.field(default_factory=dict)
    """Trials that went back to a checkpoint, and the batches after which all is forgotten."""

    ended: list[str] = dataclasses.field(default_factory=list)
    """Trials that ended, in order."""

    notes: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """Lines for the logs of trials, in order."""

    is_ignored: bool = False
    """Whether the event was known already."""
