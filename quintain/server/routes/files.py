"""`/trials/{id}/runs/{launch}/files` and `/uploads`: what other machines fetch and send.

Trials get code and checkpoints, and send checkpoints; users send code. Files are read by ranges
(`Range: bytes=N-`) and sent in pieces (`?offset=N`), so that a transfer goes on where a connection
broke.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable
from typing import Annotated, Final

import anyio
import fastapi
from starlette import requests as starlette_requests
from starlette import types

from quintain import errors
from quintain.master.cleanup import remote_deletions
from quintain.master.transfer import pieces
from quintain.master.workers import run_files
from quintain.records.views import file_listing
from quintain.server import checkpoint_files, code_uploads
from quintain.server.http import responses

_STREAMS: Final = re.compile(
    r"/api/v1/(uploads|trials/[^/]+/runs/[^/]+/files/(uploads/[^/]+/files|events))/"
)
_WRITTEN_BYTES: Final = 2**20
"""How much of a body is collected before it is written."""

_MOST_COMMITS: Final = 4
"""Checkpoints that are read again at a time, before they are complete."""

_MEDIA_TYPE: Final = "application/octet-stream"
_Offset = Annotated[int, fastapi.Query(ge=0)]


@dataclasses.dataclass
class NewUpload:
    """A checkpoint that is to come."""

    __pydantic_config__ = responses.STRICT_FIELDS

    sizes: dict[str, int]
    """Bytes of each file by its path."""


@dataclasses.dataclass(frozen=True)
class Received:
    """Part of a file that is there."""

    received: int
    """Its bytes."""


def is_stream(scope: types.Scope) -> bool:
    """Returns whether the body of a request is data of a file."""
    return scope["method"] == "PUT" and _STREAMS.match(scope["path"]) is not None


def build_router(files: run_files.RunFiles) -> fastapi.APIRouter:
    """Returns the addresses below the files of a run."""
    router = fastapi.APIRouter(prefix="/trials/{trial_id}/runs/{launch_id}/files", tags=["workers"])
    commits = anyio.CapacityLimiter(_MOST_COMMITS)

    @router.get("/places", response_model=file_listing.Places)
    def find_places(trial_id: int, launch_id: str) -> fastapi.Response:
        """Says where the master's directories are, for those who may see them, too."""
        return responses.to_response(files.find_places(trial_id, launch_id))

    @router.get("/code", response_model=file_listing.Listing)
    def list_code(trial_id: int, launch_id: str) -> fastapi.Response:
        """Lists the code of the trial."""
        return responses.to_response(files.list_code(trial_id, launch_id))

    @router.get("/code/{name:path}", response_class=fastapi.responses.FileResponse)
    def get_code(trial_id: int, launch_id: str, name: str) -> fastapi.Response:
        """Returns a file of the code."""
        path = checkpoint_files.find_file(files.find_code(trial_id, launch_id), name)
        return fastapi.responses.FileResponse(path, media_type=_MEDIA_TYPE)

    @router.get("/checkpoints/{uuid}", response_model=file_listing.Listing)
    def list_checkpoint(trial_id: int, launch_id: str, uuid: str) -> fastapi.Response:
        """Lists the files of the checkpoint that the trial goes on from."""
        return responses.to_response(files.list_checkpoint(trial_id, launch_id, uuid))

    @router.get("/checkpoints/{uuid}/{name:path}", response_class=fastapi.responses.FileResponse)
    def get_file(trial_id: int, launch_id: str, uuid: str, name: str) -> fastapi.Response:
        """Returns one of these files."""
        directory = files.find_checkpoint(trial_id, launch_id, uuid)
        path = checkpoint_files.find_file(directory, name)
        return fastapi.responses.FileResponse(path, media_type=_MEDIA_TYPE)

    @router.post("/uploads/{uuid}")
    def begin(trial_id: int, launch_id: str, uuid: str, new: NewUpload) -> fastapi.Response:
        """Begins to take a checkpoint, or goes on with it; says what is there of it."""
        found = files.begin_upload(trial_id, launch_id, _check_uuid(uuid), new.sizes)
        return responses.to_response(found)

    @router.put("/uploads/{uuid}/files/{name:path}")
    async def write(
        trial_id: int,
        launch_id: str,
        uuid: str,
        name: str,
        request: fastapi.Request,
        offset: _Offset = 0,
    ) -> fastapi.Response:
        """Takes a piece of a file; says how much of the file is there."""
        _check_uuid(uuid)
        return await receive(
            request, lambda: files.write_upload(trial_id, launch_id, uuid, name, offset)
        )

    @router.post("/uploads/{uuid}/commit")
    async def commit(trial_id: int, launch_id: str, uuid: str) -> fastapi.Response:
        """Makes what was sent a checkpoint, after it was checked. Again is no error."""
        name = _check_uuid(uuid)
        await anyio.to_thread.run_sync(
            files.commit_upload, trial_id, launch_id, name, limiter=commits
        )
        return responses.to_response({})

    @router.delete("/uploads/{uuid}")
    def discard(trial_id: int, launch_id: str, uuid: str) -> fastapi.Response:
        """Lets go of what was sent."""
        files.discard_upload(trial_id, launch_id, _check_uuid(uuid))
        return responses.to_response({})

    @router.get("/events", response_model=dict[str, int])
    def list_events(trial_id: int, launch_id: str) -> fastapi.Response:
        """Lists the event files that the trial has sent, with their sizes."""
        return responses.to_response(files.list_events(trial_id, launch_id))

    @router.put("/events/{name:path}")
    async def write_events(
        trial_id: int, launch_id: str, name: str, request: fastapi.Request, offset: _Offset = 0
    ) -> fastapi.Response:
        """Takes a piece of an event file."""
        return await receive(request, lambda: files.write_events(trial_id, launch_id, name, offset))

    return router


def build_upload_router(uploads: code_uploads.CodeUploads) -> fastapi.APIRouter:
    """Returns the addresses below `/uploads`."""
    router = fastapi.APIRouter(prefix="/uploads", tags=["experiments"])

    @router.get("/{name}", response_model=Received)
    def count(name: str) -> fastapi.Response:
        """Says how much is there of a `.tar` file of code, whose SHA-256 is its name."""
        return responses.to_response(Received(uploads.count(name)))

    @router.put("/{name}", response_model=Received)
    async def write(name: str, request: fastapi.Request, offset: _Offset = 0) -> fastapi.Response:
        """Takes a piece of it; says how much of it is there."""
        return await receive(request, lambda: uploads.write(name, offset))

    return router


async def receive(
    request: fastapi.Request,
    begin: Callable[[], contextlib.AbstractContextManager[pieces.Piece]],
) -> fastapi.Response:
    """Writes the body of a request as it comes in; what came before it broke off stays.

    Args:
        request: The request.
        begin: Gives what writes the piece.

    Returns:
        `Received`: what is there of the file now.

    Raises:
        ConfigError: If the body has another type than bytes.
    """
    given = request.headers.get("content-type", "")
    if given != _MEDIA_TYPE:
        raise errors.ConfigError(f"Content-Type: got {given[:200]!r}, expected {_MEDIA_TYPE!r}.")
    run = anyio.to_thread.run_sync
    opened = await run(begin)
    piece = await run(opened.__enter__)
    collected = bytearray()
    try:
        try:
            async for data in request.stream():
                collected += data
                if len(collected) >= _WRITTEN_BYTES:
                    await run(piece.write, bytes(collected))
                    collected.clear()
        finally:
            # Also of a body that breaks off.
            if collected:
                with anyio.CancelScope(shield=True):
                    await run(piece.write, bytes(collected))
        return responses.to_response(Received(piece.offset))
    except starlette_requests.ClientDisconnect:
        return responses.refuse(400, "The request is not complete.")
    finally:
        with anyio.CancelScope(shield=True):
            await run(opened.__exit__, None, None, None)


def _check_uuid(name: str) -> str:
    if not remote_deletions.UUID.fullmatch(name):
        raise errors.ConfigError(f"checkpoint {name[:200]!r}: expected a UUID.")
    return name
