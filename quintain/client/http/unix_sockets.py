"""Sockets in private directories: who reaches one has reached the right server.

A port belongs to whoever binds it first. A socket in a directory that only its owner may write to
can only be bound by that owner (or by root), so a secret may be sent to it.
"""

import contextlib
import errno
import os
import pathlib
import socket
import stat
from collections.abc import Iterator
from typing import Final

import urllib3
import urllib3.connection
from typing_extensions import override

from quintain import errors
from quintain.client.http import patient_sending

_BACKLOG: Final = 128
_LONGEST_PATH_BYTES: Final = 100
"""Systems allow 104 to 108 bytes with the NUL at the end."""

_DESCRIPTORS: Final = "/proc/self/fd"


def listen(path: pathlib.Path) -> socket.socket:
    """Returns a socket that listens at a path, in place of what a killed process left there.

    Args:
        path: Where. Nobody else listens there, and its directory is private.

    Raises:
        ConfigError: If the directory is not private, or can't hold a socket.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _open_directory(path.parent) as directory:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(os.stat(path.name, dir_fd=directory).st_mode):
                    os.unlink(path.name, dir_fd=directory)
            listener.bind(_shorten(path, directory))
            os.chmod(path, 0o600)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise errors.ConfigError(
            f"{path}: can't be listened on ({error.strerror or error}); the home directory has to "
            "be on a disk that can hold sockets. QUINTAIN_HOME names another one."
        ) from error
    except BaseException:
        listener.close()
        raise
    return listener


def identify(path: pathlib.Path) -> tuple[int, int] | None:
    """Returns what tells the socket at a path from a former one there, or None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def connect(path: pathlib.Path, timeout_secs: float | None) -> socket.socket:
    """Returns a connection to the socket at a path.

    Args:
        path: Where somebody listens.
        timeout_secs: Seconds that each operation on it may take.

    Raises:
        UnauthorizedError: If others may have put the socket there.
        OSError: If nobody listens.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(timeout_secs)
        with _open_directory(path.parent) as directory:
            connected.connect(_shorten(path, directory))
    except BaseException:
        connected.close()
        raise
    return connected


@contextlib.contextmanager
def _open_directory(path: pathlib.Path) -> Iterator[int]:
    """Gives the descriptor of a directory that only its owner, who is this user, may write to.

    Raises:
        UnauthorizedError: If it is not such a directory.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise errors.UnauthorizedError(
                f"{path}: belongs to user {found.st_uid} and has mode "
                f"{stat.S_IMODE(found.st_mode):04o}, so that others may answer in place of the "
                f"master; expected a directory of user {os.geteuid()} with mode 0700."
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _shorten(path: pathlib.Path, directory: int) -> str:
    """Returns a name of a socket that is short enough, in the directory that was checked.

    Raises:
        OSError: If there is none.
    """
    if os.path.isdir(_DESCRIPTORS):
        return f"{_DESCRIPTORS}/{directory}/{path.name}"
    if len(os.fsencode(path)) > _LONGEST_PATH_BYTES:
        raise OSError(
            errno.ENAMETOOLONG, f"the path has more than {_LONGEST_PATH_BYTES} bytes", str(path)
        )
    return str(path)


class SocketPool(urllib3.HTTPConnectionPool):
    """HTTP connections to the socket at a path.

    Args:
        path: Where somebody listens.
        maxsize: Connections to keep.
    """

    def __init__(self, path: pathlib.Path, *, maxsize: int) -> None:
        super().__init__("localhost", maxsize=maxsize, retries=False)
        self._path = path

    @override
    def _new_conn(self) -> urllib3.connection.HTTPConnection:
        self.num_connections += 1
        return _SocketConnection(self._path, timeout_secs=self.timeout.connect_timeout)


class _SocketConnection(patient_sending.PatientConnection):
    def __init__(self, path: pathlib.Path, *, timeout_secs: object) -> None:
        super().__init__("localhost")
        self._path = path
        self.timeout = timeout_secs  # type: ignore[assignment]

    @override
    def _new_conn(self) -> socket.socket:
        timeout_secs = self.timeout if isinstance(self.timeout, int | float) else None
        try:
            return connect(self._path, timeout_secs)
        except TimeoutError as error:
            raise urllib3.exceptions.ConnectTimeoutError(self, str(error)) from error
        except OSError as error:
            raise urllib3.exceptions.NewConnectionError(self, str(error)) from error
