"""Sealed libraries: loaded only if whole, and writable by this user alone.

A sealed file ends with a mark and the SHA-256 of what is before it, which loaders of programs
ignore. It appears in its place at once, so that there is never a part of one.
"""

import hashlib
import os
import pathlib
import stat
import tempfile
from typing import Final

_MARK: Final = b"quintain-kernels"
_SEAL_SIZE: Final = len(_MARK) + hashlib.sha256().digest_size


def write(path: pathlib.Path, content: bytes) -> None:
    """Writes a sealed file in one go.

    Raises:
        OSError: If that is impossible; nothing is left behind then.
    """
    handle, name = tempfile.mkstemp(prefix=".sealing-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content + _MARK + hashlib.sha256(content).digest())
            file.flush()
            os.fsync(file.fileno())
        pathlib.Path(name).replace(path)
    except BaseException:
        pathlib.Path(name).unlink(missing_ok=True)
        raise


def find_fault(path: pathlib.Path, *, is_own: bool = True) -> str | None:
    """Returns why a file must not be loaded; None if it may.

    Args:
        path: The file.
        is_own: Whether it has to be this user's. What is installed beside the package's own code
            is as trustworthy as that is.

    Raises:
        FileNotFoundError: If there is none.
    """
    with path.open("rb") as file:
        state = os.fstat(file.fileno())
        content = file.read() if stat.S_ISREG(state.st_mode) else b""
    if is_own and state.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user"
    if is_own and state.st_mode & stat.S_IWOTH:
        return f"{path} can be written by everybody"
    body, seal = content[:-_SEAL_SIZE], content[-_SEAL_SIZE:]
    if not body or seal != _MARK + hashlib.sha256(body).digest():
        return f"{path} is damaged"
    return None
