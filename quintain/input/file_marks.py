"""Fingerprints of training files, compared on resume.

A file may be cut, replaced or added to between two starts. What was read of it before is then not
what a checkpoint's position in the data means, and the run says so.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Final

from quintain.files import file_io, file_paths

MOST_FILES: Final = 100
"""Files that are kept in mind, the ones found last."""

_PART_BYTES: Final = 1 << 16
_watches: list[bool] = []
_known: dict[str, str] = {}


@contextlib.contextmanager
def files_noted(*, is_training: bool) -> Iterator[None]:
    """Keeps the files in mind that are found meanwhile, if they are training data."""
    _watches.append(is_training)
    try:
        yield
    finally:
        _watches.pop()


def note(path: str) -> None:
    """Keeps a file of this machine in mind, if training data are looked for."""
    if not _watches or not _watches[-1] or not file_paths.is_local(path):
        return
    with contextlib.suppress(OSError):  # Who reads it says what is wrong.
        _known.pop(path, None)
        _known[path] = describe(path)
        while len(_known) > MOST_FILES:
            del _known[next(iter(_known))]


def get_known() -> dict[str, str]:
    """Returns sizes and hashes of the training data's files by their paths, as they were found."""
    return dict(_known)


def describe_change(saved: Mapping[str, str]) -> str:
    """Returns how files differ from what they were, or an empty text.

    Args:
        saved: What `get_known` returned before. Files that are not read any more are left out.
    """
    return ", ".join(
        f"{path} ({_describe_size(former)}, now {_describe_size(_known[path])})"
        for path, former in saved.items()
        if _known.get(path, former) != former
    )


def describe(path: str) -> str:
    """Returns size and hash of beginning, middle and end: large files are not read as a whole."""
    digest = hashlib.sha256()
    with file_io.open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        for start in (0, size // 2, max(size - _PART_BYTES, 0)):
            file.seek(start)
            digest.update(file.read(_PART_BYTES))
    return f"{size}:{digest.hexdigest()[:16]}"


def _describe_size(mark: str) -> str:
    return f"{int(mark.partition(':')[0]):,} bytes"
