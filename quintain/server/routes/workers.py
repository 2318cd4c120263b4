"""`/trials/{id}/runs`: what the processes of trials ask and report."""

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import anyio
import fastapi
import pydantic

from quintain import errors
from quintain.master.cleanup import remote_deletions
from quintain.master.workers import worker_calls
from quintain.records.rows import codec, trial, workload
from quintain.records.rows import launch as launch_lib
from quintain.server.http import responses
from quintain.server.security import access

MAX_WAIT_SECS: Final = 60.0
"""Longest time that a request for work waits."""

_MAX_WORKERS: Final = 1024
_MOST_CHECKS: Final = 2
"""Checkpoints that are read through at once, because trials say that they are damaged."""

_SLICE_SECS: Final = 1.0

T = TypeVar("T")

_ADAPTERS: Final[dict[type[Any], pydantic.TypeAdapter[Any]]] = {
    # To make one takes longer than everything else that is done for a request.
    kind: pydantic.TypeAdapter(kind)
    for kind in (trial.ProcessIdentity, workload.WorkloadResult)
}


@dataclasses.dataclass
class Exit:
    """Reason of a process that ends by itself."""

    __pydantic_config__ = responses.STRICT_FIELDS

    reason: workload.ExitedReason
    """The kind of reason."""

    message: str = ""
    """What happened."""


@dataclasses.dataclass
class Damage:
    """A checkpoint that can't be used."""

    checkpoint: str
    """Its UUID."""

    damage: str
    """What is wrong with it."""


@dataclasses.dataclass
class Wait:
    """Reason of a process that waits."""

    __pydantic_config__ = responses.STRICT_FIELDS

    waits_for: str = ""
    """What it waits for; empty if it goes on."""


@dataclasses.dataclass
class Arrival:
    """One of the processes that train a trial together."""

    __pydantic_config__ = responses.STRICT_FIELDS

    rank: int
    """Its number."""

    size: int
    """How many there are."""

    member: trial.Peer
    """Where the others reach it."""


def build_router(
    calls: worker_calls.WorkerCalls, is_stopping: Callable[[], bool]
) -> fastapi.APIRouter:
    """Returns the addresses that workers ask.

    A request for work holds a thread while it waits. These threads are counted apart from those of
    all other requests, so that waiting workers never keep a user, or a report, waiting.

    Args:
        calls: What answers.
        is_stopping: Whether the server is about to stop, and nobody should wait any more.
    """
    router = fastapi.APIRouter(prefix="/trials/{trial_id}/runs", tags=["workers"])
    waiting = anyio.CapacityLimiter(_MAX_WORKERS)
    checks = anyio.CapacityLimiter(_MOST_CHECKS)

    @router.post("")
    async def start_run(trial_id: int, request: fastapi.Request) -> fastapi.Response:
        """Says what a process has to know."""
        identity = _read(trial.ProcessIdentity, await request.body())
        launch = getattr(request.state, access.LAUNCH, None)
        if launch is not None and launch_lib.split_member(identity.launch_id)[0] != launch[1]:
            raise errors.UnauthorizedError(
                f"launch_id: got {identity.launch_id!r}, but the token is that of {launch[1]!r}."
            )
        spec = await anyio.to_thread.run_sync(calls.start_run, trial_id, identity)
        return responses.to_response(spec)

    @router.get("/{launch_id}/workload")
    async def next_workload(
        trial_id: int,
        launch_id: str,
        wait: Annotated[float, fastapi.Query(ge=0)] = 0.0,
    ) -> fastapi.Response:
        """Says what to do next; 204 if there is nothing yet, 410 if the process is to end."""
        deadline_secs = time.monotonic() + min(wait, MAX_WAIT_SECS)
        # Most find work at once: thousands that start together need no threads of their own.
        slice_secs, limiter = 0.0, None
        while True:
            found = await anyio.to_thread.run_sync(
                calls.next_workload, trial_id, launch_id, slice_secs, limiter=limiter
            )
            if found is not None:
                return responses.to_response(found)
            left_secs = deadline_secs - time.monotonic()
            if left_secs <= 0 or is_stopping():
                return fastapi.Response(status_code=204)
            slice_secs, limiter = min(left_secs, _SLICE_SECS), waiting

    @router.post("/{launch_id}/results")
    async def report(trial_id: int, launch_id: str, request: fastapi.Request) -> fastapi.Response:
        """Records what a workload gave, and says what to do next if that is known by now.

        The same report again changes nothing.
        """
        body = await request.body()

        work = await anyio.to_thread.run_sync(_record, calls, trial_id, launch_id, body)
        return responses.to_response(work)

    @router.post("/{launch_id}/rendezvous")
    def meet(trial_id: int, launch_id: str, arrival: Arrival) -> fastapi.Response:
        """Returns where all processes of the trial are; 204 while some have not come yet."""
        found = calls.meet(trial_id, launch_id, arrival.rank, arrival.size, arrival.member)
        if found is None:
            return fastapi.Response(status_code=204)
        return responses.to_response(found)

    @router.post("/{launch_id}/damage")
    async def report_damage(trial_id: int, launch_id: str, found: Damage) -> fastapi.Response:
        """Marks a checkpoint, and says from which older one to go on."""
        spec = await anyio.to_thread.run_sync(
            calls.report_damage,
            *(trial_id, launch_id, found.checkpoint, found.damage),
            limiter=checks,
        )
        return responses.to_response(spec)

    @router.put("/{launch_id}/wait")
    def note_wait(trial_id: int, launch_id: str, wait: Wait) -> fastapi.Response:
        """Notes what a process waits for, for users to see."""
        calls.note_wait(trial_id, launch_id, wait.waits_for)
        return responses.to_response({})

    @router.post("/{launch_id}/exit")
    def report_exit(trial_id: int, launch_id: str, last: Exit) -> fastapi.Response:
        """Records that a process ends by itself, and why."""
        calls.report_exit(trial_id, launch_id, last.reason, last.message)
        return responses.to_response({})

    return router


def _record(
    calls: worker_calls.WorkerCalls, trial_id: int, launch_id: str, body: bytes
) -> workload.Workload | None:
    """Takes a result, and returns what comes next; None if nothing does, or not yet."""
    result = _read(workload.WorkloadResult, body)
    if result.checkpoint is not None:
        _check_uuid(result.checkpoint.uuid)
    calls.report(trial_id, launch_id, result)
    is_last = result.workload.kind is workload.WorkloadKind.TERMINATE
    if is_last or result.exited_reason is not None:
        return None
    return calls.next_workload(trial_id, launch_id, 0.0)


def _check_uuid(name: str) -> None:
    """Checks the name of a directory that may be deleted one day.

    Raises:
        ConfigError: If it can be a path.
    """
    if not remote_deletions.UUID.fullmatch(name):
        raise errors.ConfigError(f"checkpoint.uuid: got {name[:200]!r}, expected a UUID.")


def _read(kind: type[T], body: bytes) -> T:
    """Returns the record in the body of a request.

    Raises:
        ConfigError: If it is none.
    """
    try:
        # The types are checked here; the codec adds numbers that are not finite.
        _ADAPTERS[kind].validate_json(body, strict=True)
        return codec.from_plain(kind, json.loads(body))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise errors.ConfigError(
            f"body: expected a {kind.__name__} as JSON, but it can't be read: {str(error)[:1000]}"
        ) from error
