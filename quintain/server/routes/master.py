"""`/master` and `/slots`: who answers, and what runs where."""

import dataclasses
from collections.abc import Callable
from typing import Annotated

import fastapi

from quintain.records.views import master_status
from quintain.server import direct_calls
from quintain.server.http import responses


@dataclasses.dataclass
class Stop:
    """Options of a stop."""

    __pydantic_config__ = responses.STRICT_FIELDS

    drain: bool = True
    """Whether trials finish their workload and save themselves first. Otherwise their processes go
    on, for the next master to take over."""


def build_router(
    calls: direct_calls.DirectCalls,
    info: master_status.MasterInfo,
    stop: Callable[[bool], None],
    find_summary: Callable[[], master_status.MasterSummary],
    list_slots: Callable[..., list[master_status.SlotStatus]],
) -> fastapi.APIRouter:
    """Returns the addresses below `/master` and `/slots`.

    Args:
        calls: What answers.
        info: Which master this is.
        stop: Asks the process to stop and returns at once; the argument says whether to drain.
        find_summary: Returns the status in numbers.
        list_slots: Returns slots; see `Master.list_slots`.
    """
    router = fastapi.APIRouter(tags=["master"])

    @router.get("/master", response_model=master_status.MasterInfo)
    def get_info() -> fastapi.Response:
        """Says which master answers."""
        return responses.to_response(info)

    @router.get("/master/status", response_model=master_status.MasterStatus)
    def get_status() -> fastapi.Response:
        """Says what runs where: all slots, and all trials that run or wait."""
        return responses.to_response(calls.get_status())

    @router.get("/master/summary", response_model=master_status.MasterSummary)
    def get_summary() -> fastapi.Response:
        """Says the same in numbers, which is quick however many there are."""
        return responses.to_response(find_summary())

    @router.post("/master/stop", response_model=master_status.MasterInfo, status_code=202)
    def stop_master(how: Stop) -> fastapi.Response:
        """Asks the master to stop; it goes on answering until it does."""
        stop(how.drain)
        return responses.to_response(info, 202)

    @router.get("/slots", response_model=list[master_status.SlotStatus])
    def find_slots(
        after: int = -1,
        limit: Annotated[int | None, fastapi.Query(ge=1)] = None,
        trial_id: int | None = None,
    ) -> fastapi.Response:
        """Lists slots and who holds them, by number: those after one, and at most so many."""
        return responses.to_response(list_slots(after=after, limit=limit, trial_id=trial_id))

    return router
