"""Directories as one stream of bytes: a `.tar` file that is made while it is sent."""

import pathlib
import tarfile
import urllib.parse
from collections.abc import Iterator
from typing import Final

import fastapi

from quintain import errors
from quintain.server import checkpoint_files

_PIECE_BYTES: Final = 2**20
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


def to_response(directory: pathlib.Path, name: str) -> fastapi.Response:
    """Returns an answer with all files of a directory.

    Args:
        directory: The directory.
        name: Name of the archive without `.tar`, and of the directory in it.
    """
    members = [
        (_describe(directory / path, f"{name}/{path}"), directory / path)
        for path in checkpoint_files.list_files(directory)
    ]
    headers = {
        "Content-Length": str(
            sum(len(head) + _pad(size) for (head, size), _ in members) + len(_END)
        ),
        "Content-Disposition": f"attachment; filename*=UTF-8''{urllib.parse.quote(name)}.tar",
    }
    return fastapi.responses.StreamingResponse(
        _stream(members), media_type="application/x-tar", headers=headers
    )


def _describe(path: pathlib.Path, name: str) -> tuple[bytes, int]:
    """Returns what stands before a file in the archive, and its size."""
    status = path.stat()
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), 0o644
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"), info.size


def _stream(members: list[tuple[tuple[bytes, int], pathlib.Path]]) -> Iterator[bytes]:
    for (head, size), path in members:
        yield head
        left = size
        with path.open("rb") as file:
            while left:
                piece = file.read(min(left, _PIECE_BYTES))
                if not piece:
                    # The connection ends before the announced length, which tells the other side.
                    raise errors.CheckpointError(f"{path}: was cut while it was sent.")
                left -= len(piece)
                yield piece
        yield bytes(_pad(size) - size)
    yield _END


def _pad(size: int) -> int:
    """Returns the bytes that a file takes in an archive."""
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
