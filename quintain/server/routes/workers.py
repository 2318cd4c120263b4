"""`/trials/{id}/runs`: what the processes of trials ask and report."""

import time
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import anyio
import fastapi
import pydantic

from quintain import errors
from quintain.client import call_table, file_calls, worker_client
from quintain.master.cleanup import remote_deletions
from quintain.master.workers import worker_calls
from quintain.records.rows import codec, trial, workload
from quintain.records.rows import launch as launch_lib
from quintain.server.http import responses
from quintain.server.routes import declared
from quintain.server.routes import parts as parts_lib
from quintain.server.security import access
from quintain.web import request_checks

MAX_WAIT_SECS: Final = 60.0
"""Longest time that a request for work waits."""

_SLICE_SECS: Final = 1.0
_PREFIX: Final = "/trials/{trial_id}/runs"
_BY_HAND: Final = frozenset(
    {"commit_checkpoint", "next_workload", "report", "report_damage", "start_run"}
)
"""Calls that wait, or whose threads are counted apart."""

T = TypeVar("T")

_ADAPTERS: Final[dict[type[Any], pydantic.TypeAdapter[Any]]] = {
    # To make one takes longer than everything else that is done for a request.
    kind: pydantic.TypeAdapter(kind)
    for kind in (trial.ProcessIdentity, workload.WorkloadResult)
}

router = responses.build_router(_PREFIX, tags=["workers"])


class Damage(pydantic.BaseModel):
    """A checkpoint that can't be used."""

    checkpoint: str
    """Its UUID."""

    damage: str
    """What is wrong with it."""


def build_router(parts: parts_lib.Parts) -> fastapi.APIRouter:
    """Returns all addresses of processes of trials that are declared."""
    files, kinds = parts.master.files, (worker_client.WorkerClient, file_calls.FileCalls)
    calls = {name: one for kind in kinds for name, one in call_table.list_calls(kind).items()}

    def begin_checkpoint(
        trial_id: int, launch_id: str, uuid: str, sizes: Mapping[str, int]
    ) -> object:
        return files.begin_upload(trial_id, launch_id, check_uuid(uuid), sizes)

    def discard_checkpoint(trial_id: int, launch_id: str, uuid: str) -> None:
        files.discard_upload(trial_id, launch_id, check_uuid(uuid))

    return declared.build_router(
        {name: one for name, one in calls.items() if name not in _BY_HAND},
        {
            **declared.find_answers(files, file_calls.FileCalls),
            **declared.find_answers(parts.master.workers, worker_client.WorkerClient),
            "begin_checkpoint": begin_checkpoint,
            "discard_checkpoint": discard_checkpoint,
        },
        tags=["workers"],
    )


@router.post("")
async def start_run(
    parts: parts_lib.Given, trial_id: int, request: fastapi.Request
) -> fastapi.Response:
    """Says what a process has to know."""
    body = await request.body()
    identity = _read(trial.ProcessIdentity, body, request_checks.take_json(request.scope))
    launch = getattr(request.state, access.LAUNCH, None)
    if launch is not None and launch_lib.split_member(identity.launch_id)[0] != launch[1]:
        raise errors.UnauthorizedError(
            f"launch_id: got {identity.launch_id!r}, but the token is that of {launch[1]!r}."
        )
    workers = parts.master.workers
    return responses.to_response(
        await anyio.to_thread.run_sync(workers.start_run, trial_id, identity)
    )


@router.get("/{launch_id}/workload")
async def next_workload(
    parts: parts_lib.Given,
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
            parts.master.workers.next_workload,
            *(trial_id, launch_id, slice_secs),
            limiter=limiter,
        )
        if found is not None:
            return responses.to_response(found)
        left_secs = deadline_secs - time.monotonic()
        if left_secs <= 0 or parts.is_stopping():
            return fastapi.Response(status_code=204)
        slice_secs, limiter = min(left_secs, _SLICE_SECS), parts.waiting_workers


@router.post("/{launch_id}/results")
async def report(
    parts: parts_lib.Given, trial_id: int, launch_id: str, request: fastapi.Request
) -> fastapi.Response:
    """Records what a workload gave, and says what to do next if that is known by now.

    The same report again changes nothing.
    """
    body, workers = await request.body(), parts.master.workers
    plain = request_checks.take_json(request.scope)
    work = await anyio.to_thread.run_sync(_record, workers, trial_id, launch_id, body, plain)
    return responses.to_response(work)


@router.post("/{launch_id}/damage")
async def report_damage(
    parts: parts_lib.Given, trial_id: int, launch_id: str, found: Damage
) -> fastapi.Response:
    """Marks a checkpoint, and says from which older one to go on."""
    order = await anyio.to_thread.run_sync(
        parts.master.workers.report_damage,
        *(trial_id, launch_id, found.checkpoint, found.damage),
        limiter=parts.damage_checks,
    )
    return responses.to_response(order)


@router.post("/{launch_id}/files/uploads/{uuid}/commit")
async def commit_checkpoint(
    parts: parts_lib.Given, trial_id: int, launch_id: str, uuid: str
) -> fastapi.Response:
    """Makes what was sent a checkpoint, after it was checked. Again is no error."""
    await anyio.to_thread.run_sync(
        parts.master.files.commit_upload,
        *(trial_id, launch_id, check_uuid(uuid)),
        limiter=parts.commits,
    )
    return responses.to_response({})


def _record(
    calls: worker_calls.WorkerCalls, trial_id: int, launch_id: str, body: bytes, plain: object
) -> workload.Workload | None:
    """Takes a result, and returns what comes next; None if nothing does, or not yet."""
    result = _read(workload.WorkloadResult, body, plain)
    if result.checkpoint is not None:
        check_uuid(result.checkpoint.uuid)
    calls.report(trial_id, launch_id, result)
    is_last = result.workload.kind is workload.WorkloadKind.TERMINATE
    if is_last or result.exited_reason is not None:
        return None
    return calls.next_workload(trial_id, launch_id, 0.0)


def check_uuid(name: str) -> str:
    """Returns the name of a checkpoint, whose directory may be deleted one day.

    Raises:
        ConfigError: If it can be a path.
    """
    if not remote_deletions.UUID.fullmatch(name):
        raise errors.ConfigError(f"checkpoint.uuid: got {name[:200]!r}, expected a UUID.")
    return name


def _read(kind: type[T], body: bytes, plain: object) -> T:
    """Returns the record in the body of a request, which is there as bytes and parsed.

    Raises:
        ConfigError: If it is none.
    """
    try:
        # The types are checked here; the codec adds numbers that are not finite.
        _ADAPTERS[kind].validate_json(body, strict=True)
        return codec.from_plain(kind, plain)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise errors.ConfigError(
            f"body: expected a {kind.__name__} as JSON, but it can't be read: {str(error)[:1000]}"
        ) from error
