"""`/uploads`: code of users of other machines, for a new experiment."""

import dataclasses

import fastapi

from quintain.server import code_uploads
from quintain.server.http import responses


@dataclasses.dataclass
class Piece:
    """A part of what is sent."""

    __pydantic_config__ = responses.STRICT_FIELDS

    offset: int
    """Bytes before it. It may have come before, as a whole or in part."""

    data: str
    """Its bytes, as base64."""


@dataclasses.dataclass(frozen=True)
class Upload:
    """State of an upload."""

    name: str
    """What it is called."""

    size: int
    """Its bytes."""


def build_router(uploads: code_uploads.CodeUploads) -> fastapi.APIRouter:
    """Returns the addresses below `/uploads`.

    Args:
        uploads: What answers.
    """
    router = fastapi.APIRouter(prefix="/uploads", tags=["experiments"])

    @router.post("", response_model=Upload, status_code=201)
    def begin() -> fastapi.Response:
        """Begins a `.tar` file with the code of an experiment."""
        return responses.to_response(Upload(uploads.begin(), 0), 201)

    @router.put("/{name}", response_model=Upload)
    def write(name: str, piece: Piece) -> fastapi.Response:
        """Takes a piece of it, and says how many bytes there are."""
        size = uploads.write(name, piece.offset, piece.data)
        return responses.to_response(Upload(name, size))

    return router
