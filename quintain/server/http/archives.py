"""Directories and checkpoints as one stream of bytes: a `.tar` file, made while it is sent."""

import dataclasses
import io
import tarfile
import time
import urllib.parse
from collections.abc import Iterator
from typing import BinaryIO, Final

import fastapi

from quintain import errors
from quintain.files import changing_files
from quintain.server import checkpoint_files

_PIECE_BYTES: Final = 2**20
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


def to_response(files: checkpoint_files.StoredFiles, name: str) -> fastapi.Response:
    """Returns an answer with all files of a checkpoint or a directory.

    Args:
        files: The files.
        name: Name of the archive without `.tar`, and of the directory in it.
    """
    members = [
        _Member(_describe(files, path, f"{name}/{path}", size), path, size)
        for path, size in files.list_sizes().items()
    ]
    headers = {
        "Content-Length": str(
            sum(len(each.head) + _pad(each.size) for each in members) + len(_END)
        ),
        "Content-Disposition": f"attachment; filename*=UTF-8''{urllib.parse.quote(name)}.tar",
    }
    return fastapi.responses.StreamingResponse(
        _stream(files, members), media_type="application/x-tar", headers=headers
    )


def to_file_response(files: checkpoint_files.StoredFiles, name: str) -> fastapi.Response:
    """Returns an answer with one file.

    Raises:
        NotFoundError: If there is no such file.
    """
    kind = "application/octet-stream"
    if files.local is not None:
        path = checkpoint_files.find_file(files.local, name)
        return fastapi.responses.FileResponse(path, media_type=kind)
    file = files.open(name)
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return fastapi.responses.StreamingResponse(
        _read(file, size, name), media_type=kind, headers={"Content-Length": str(size)}
    )


@dataclasses.dataclass(frozen=True)
class _Member:
    head: bytes  # What stands before the file in the archive.
    path: str
    size: int


def _describe(files: checkpoint_files.StoredFiles, path: str, name: str, size: int) -> bytes:
    changed = time.time()
    if files.local is not None:
        found = changing_files.find(files.local / path)
        if found is None:
            raise errors.NotFoundError(f"{path}: was deleted before it was sent.")
        changed = found.st_mtime
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, int(changed), 0o644
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _stream(files: checkpoint_files.StoredFiles, members: list[_Member]) -> Iterator[bytes]:
    for each in members:
        yield each.head
        yield from _read(files.open(each.path), each.size, each.path)
        yield bytes(_pad(each.size) - each.size)
    yield _END


def _read(file: BinaryIO, size: int, path: str) -> Iterator[bytes]:
    left = size
    with file:
        while left:
            piece = file.read(min(left, _PIECE_BYTES))
            if not piece:
                # The connection ends before the announced length, which tells the other side.
                raise errors.CheckpointError(f"{path}: was cut while it was sent.")
            left -= len(piece)
            yield piece


def _pad(size: int) -> int:
    """Returns the bytes that a file takes in an archive."""
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
