"""`/timeline`: which trial held which slot, and when."""

from typing import Any, Final

import fastapi
from typing_extensions import TypedDict

from quintain.server import direct_calls
from quintain.server.http import responses

_MOST_SPANS: Final = 20_000


class SlotKind(TypedDict):
    """A slot that there is now."""

    id: int
    kind: str
    device: str
    node: str
    """Its machine; empty for that of the master."""


class Timeline(TypedDict):
    """Launches by slot and time."""

    slots: list[SlotKind]
    spans: list[list[Any]]
    """`[slot, trial, experiment, start, end]` each; the end is null while it runs."""


def build_router(calls: direct_calls.DirectCalls) -> fastapi.APIRouter:
    """Returns the address `/timeline`."""
    router = fastapi.APIRouter(tags=["master"])

    @router.get("/timeline", response_model=Timeline)
    def get_timeline(
        *, experiment_id: int | None = None, since: float | None = None
    ) -> fastapi.Response:
        """Lists who ran where: `[slot, trial, experiment, start, end]`, the newest 20,000."""
        slots = [
            {"id": slot.id, "kind": slot.kind, "device": slot.device, "node": slot.node}
            for slot in calls.get_status().slots
        ]
        spans = calls.list_spans(experiment_id, since=since)
        listed = [
            [slot, span.trial_id, span.experiment_id, span.start_time, span.end_time]
            for span in spans
            for slot in span.slots
        ]
        return responses.to_response({"slots": slots, "spans": listed[-_MOST_SPANS:]})

    return router
