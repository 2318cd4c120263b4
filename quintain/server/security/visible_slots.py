"""Slots as a user sees them: members of one project see how busy machines are, not with what."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import fastapi

from quintain import errors
from quintain.records.rows import launch
from quintain.records.rows import node as node_lib
from quintain.records.views import master_status
from quintain.server.security import access
from quintain.server.security import roles as roles_lib

_OTHERS = master_status.OTHERS
Status = TypeVar("Status", bound=master_status.MasterStatus | master_status.MasterSummary)
Held = TypeVar("Held", master_status.SlotStatus, launch.Span)


class VisibleSlots:
    """Takes what belongs to others' experiments out of answers.

    Args:
        roles: What users may do.
        user: Who asks.
    """

    def __init__(self, roles: roles_lib.Roles, user: str) -> None:
        @functools.cache
        def may_read(number: int, name: str = "experiment_id") -> bool:
            try:
                return roles.may_read(user, number, name)
            except errors.StoreError:  # It is away, so that nobody knows whose this is.
                return False

        self._may_read = may_read

    def of_status(self, status: Status) -> Status:
        """Returns a status without others' experiments."""
        own = tuple(each for each in status.experiments if self._may_read(each.experiment_id))
        seen: dict[str, Any] = {"experiments": own}
        if isinstance(status, master_status.MasterStatus):
            seen["slots"] = tuple(self.of_holders(status.slots))
        return dataclasses.replace(status, **seen)

    def of_holders(self, held: Iterable[Held]) -> list[Held]:
        """Returns slots, or spans of a timeline, held by `OTHERS` where others hold them."""
        return [
            each
            if each.experiment_id is None or self._may_read(each.experiment_id)
            else dataclasses.replace(each, experiment_id=_OTHERS, trial_id=_OTHERS)
            for each in held
        ]

    def of_nodes(self, nodes: Iterable[node_lib.NodeStatus]) -> list[node_lib.NodeStatus]:
        """Returns machines with the user's own trials; how many slots are held stays."""
        return [
            dataclasses.replace(
                each,
                trials=tuple(one for one in each.trials if self._may_read(one, "trial_id")),
            )
            for each in nodes
        ]


async def _find(request: fastapi.Request) -> VisibleSlots:
    user = getattr(request.state, access.USER)
    return VisibleSlots(request.app.state.parts.roles, user)


Given = Annotated[VisibleSlots, fastapi.Depends(_find)]
"""Parameter of routes."""
