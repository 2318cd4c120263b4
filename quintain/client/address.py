"""Where a master is. Commands that do not ask one need not import what asks it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a master is."""

    url: str
    """Like `unix:/home/me/.quintain/master.sock`, or `http://127.0.0.1:8080`."""

    token: str = dataclasses.field(default="", repr=False)
    """What the master recognises its clients by; empty if it does not ask."""
