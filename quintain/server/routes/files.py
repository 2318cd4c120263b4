"""`/trials/{id}/runs/{launch}/files` and `/uploads`: bytes that other machines fetch and send.

Trials get code and checkpoints, and send checkpoints; users send code. Files are read by ranges
(`Range: bytes=N-`) and sent in pieces (`?offset=N`), so that a transfer goes on where a connection
broke.
"""

import contextlib
import re
from collections.abc import Callable
from typing import Annotated, Final

import anyio
import fastapi
from starlette import requests as starlette_requests
from starlette import types

from quintain import errors
from quintain.master.transfer import pieces
from quintain.server import checkpoint_files
from quintain.server.http import responses
from quintain.server.routes import parts as parts_lib
from quintain.server.routes import workers

_STREAMS: Final = re.compile(
    r"/api/v1/(uploads|trials/[^/]+/runs/[^/]+/files/(uploads/[^/]+/files|events))/"
)
_WRITTEN_BYTES: Final = 2**20
"""How much of a body is collected before it is written."""

_MEDIA_TYPE: Final = "application/octet-stream"
_RUN: Final = "/trials/{trial_id}/runs/{launch_id}/files"
_Offset = Annotated[int, fastapi.Query(ge=0)]

router = responses.build_router(tags=["files"])


def is_stream(scope: types.Scope) -> bool:
    """Returns whether the body of a request is data of a file."""
    return scope["method"] == "PUT" and _STREAMS.match(scope["path"]) is not None


@router.get(f"{_RUN}/code/{{name:path}}", response_class=fastapi.responses.FileResponse)
def get_code(parts: parts_lib.Given, trial_id: int, launch_id: str, name: str) -> fastapi.Response:
    """Returns a file of the code."""
    path = checkpoint_files.find_file(parts.master.files.find_code(trial_id, launch_id), name)
    return fastapi.responses.FileResponse(path, media_type=_MEDIA_TYPE)


@router.get(
    f"{_RUN}/checkpoints/{{uuid}}/{{name:path}}", response_class=fastapi.responses.FileResponse
)
def get_checkpoint_file(
    parts: parts_lib.Given, trial_id: int, launch_id: str, uuid: str, name: str
) -> fastapi.Response:
    """Returns a file of the checkpoint that the trial goes on from."""
    directory = parts.master.files.find_checkpoint(trial_id, launch_id, uuid)
    path = checkpoint_files.find_file(directory, name)
    return fastapi.responses.FileResponse(path, media_type=_MEDIA_TYPE)


@router.put(f"{_RUN}/uploads/{{uuid}}/files/{{name:path}}")
async def write_checkpoint_file(
    parts: parts_lib.Given,
    trial_id: int,
    launch_id: str,
    uuid: str,
    name: str,
    request: fastapi.Request,
    offset: _Offset = 0,
) -> fastapi.Response:
    """Takes a piece of a file; says how much of the file is there."""
    workers.check_uuid(uuid)
    files = parts.master.files
    return await receive(
        request, lambda: files.write_upload(trial_id, launch_id, uuid, name, offset)
    )


@router.put(f"{_RUN}/events/{{name:path}}")
async def write_events(
    parts: parts_lib.Given,
    trial_id: int,
    launch_id: str,
    name: str,
    request: fastapi.Request,
    offset: _Offset = 0,
) -> fastapi.Response:
    """Takes a piece of an event file."""
    files = parts.master.files
    return await receive(request, lambda: files.write_events(trial_id, launch_id, name, offset))


@router.put("/uploads/{name}", response_model=dict[str, int])
async def write_code(
    parts: parts_lib.Given, name: str, request: fastapi.Request, offset: _Offset = 0
) -> fastapi.Response:
    """Takes a piece of a `.tar` file of code, whose SHA-256 is its name."""
    return await receive(request, lambda: parts.uploads.write(name, offset))


async def receive(
    request: fastapi.Request,
    begin: Callable[[], contextlib.AbstractContextManager[pieces.Piece]],
) -> fastapi.Response:
    """Writes the body of a request as it comes in; what came before it broke off stays.

    Args:
        request: The request.
        begin: Gives what writes the piece.

    Returns:
        `received`: bytes of the file that are there now.

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
        return responses.to_response({"received": piece.offset})
    except starlette_requests.ClientDisconnect:
        return responses.refuse(400, "The request is not complete.")
    finally:
        with anyio.CancelScope(shield=True):
            await run(opened.__exit__, None, None, None)
