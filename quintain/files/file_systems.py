"""The kinds of file systems: the operating system's, TensorFlow's, and those of fsspec.

Each does the same few things; `file_io` chooses one by the path. All raise `OSError` inside of
`os_errors_raised`.
"""

import abc
import builtins
import contextlib
import errno
import functools
import importlib
import importlib.util
import io
import os
import shutil
import stat
from collections.abc import Iterator
from typing import Any, Final

from typing_extensions import override

from quintain.files import disk_errors, file_paths

_CODES: Final = {
    "NotFoundError": errno.ENOENT,
    "FileNotFoundError": errno.ENOENT,
    "AlreadyExistsError": errno.EEXIST,
    "FileExistsError": errno.EEXIST,
    "PermissionDeniedError": errno.EACCES,
    "PermissionError": errno.EACCES,
    "UnauthenticatedError": errno.EACCES,
    "ResourceExhaustedError": errno.ENOSPC,
    "IsADirectoryError": errno.EISDIR,
    "NotADirectoryError": errno.ENOTDIR,
}
_OWN_SCHEMES: Final = ("", "file", "gs", "ram")
_COMMON_SCHEMES: Final = ("file", "gs", "ram", "memory", "s3", "az", "hdfs", "http", "https")


class FileSystem(abc.ABC):
    """Operations on files of one kind of path; other errors than `OSError` may come."""

    @abc.abstractmethod
    def open(self, path: str, mode: str) -> io.BufferedIOBase:
        """Opens a file; `mode` is `rb`, `wb` or `ab`."""

    @abc.abstractmethod
    def exists(self, path: str) -> bool:
        """True if there is a file or a directory."""

    @abc.abstractmethod
    def isdir(self, path: str) -> bool:
        """True if there is a directory."""

    @abc.abstractmethod
    def listdir(self, path: str) -> list[str]:
        """Returns the names in a directory, those of directories maybe with a `/` behind them."""

    @abc.abstractmethod
    def glob(self, pattern: str) -> list[str]:
        """Returns what matches a pattern."""

    @abc.abstractmethod
    def size(self, path: str) -> int:
        """Returns the bytes of a file."""

    @abc.abstractmethod
    def makedirs(self, path: str) -> None:
        """Makes a directory and those above it, where they are missing."""

    @abc.abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file."""

    @abc.abstractmethod
    def rmtree(self, path: str) -> None:
        """Removes a directory and all in it."""

    @abc.abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Moves a file over one that may be there."""


class _Local(FileSystem):
    """The operating system's files."""

    @override
    def open(self, path: str, mode: str) -> Any:
        return builtins.open(path, mode)

    @override
    def exists(self, path: str) -> bool:
        return self._find_mode(path) is not None

    @override
    def isdir(self, path: str) -> bool:
        return stat.S_ISDIR(self._find_mode(path) or 0)

    def _find_mode(self, path: str) -> int | None:
        """Returns the kind of a file, or None if there is none.

        Raises:
            OSError: If it can't be looked at: who may not do so would take it for missing.
        """
        try:
            return os.stat(path).st_mode
        except ValueError:  # No file has such a name.
            return None
        except OSError as error:
            if disk_errors.is_transient(error):
                raise
            return None

    @override
    def listdir(self, path: str) -> list[str]:
        return os.listdir(path or os.curdir)

    @override
    def glob(self, pattern: str) -> list[str]:
        return list(_tensorflow().io.gfile.glob(pattern))  # Also `{a,b}`, as behind a URL.

    @override
    def size(self, path: str) -> int:
        return os.path.getsize(path)

    @override
    def makedirs(self, path: str) -> None:
        os.makedirs(path or os.curdir, exist_ok=True)

    @override
    def remove(self, path: str) -> None:
        os.remove(path)

    @override
    def rmtree(self, path: str) -> None:
        shutil.rmtree(path)

    @override
    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)


class _TensorFlow(FileSystem):
    """The file systems of TensorFlow."""

    @property
    def _gfile(self) -> Any:
        return _tensorflow().io.gfile

    @override
    def open(self, path: str, mode: str) -> io.BufferedIOBase:
        raw: Any = _RawFile(self._gfile.GFile(path, mode), path, mode)
        return io.BufferedReader(raw) if mode == "rb" else io.BufferedWriter(raw)

    @override
    def exists(self, path: str) -> bool:
        return bool(self._gfile.exists(path)) and (
            file_paths.scheme(path) != "ram" or self._is_in_ram(path)
        )

    @override
    def isdir(self, path: str) -> bool:
        return bool(self._gfile.isdir(path)) and self.exists(path)

    def _is_in_ram(self, path: str) -> bool:
        """True if there is more than longer names: `ram://` takes `as` of `assets` for a directory.

        A directory that was not made, but has files, is not listed above it.
        """
        directory, name = file_paths.split(file_paths.normal(path))
        return not name or name in self._gfile.listdir(directory) or bool(self.listdir(path))

    @override
    def listdir(self, path: str) -> list[str]:
        names = list(self._gfile.listdir(path))
        if file_paths.scheme(path) != "ram":
            return names
        # It lists `assets.extra` below `assets`, as `.extra`.
        return [name for name in names if self._gfile.exists(file_paths.join(path, name))]

    @override
    def glob(self, pattern: str) -> list[str]:
        return list(self._gfile.glob(pattern))

    @override
    def size(self, path: str) -> int:
        return int(self._gfile.stat(path).length)

    @override
    def makedirs(self, path: str) -> None:
        self._gfile.makedirs(path)

    @override
    def remove(self, path: str) -> None:
        self._gfile.remove(path)

    @override
    def rmtree(self, path: str) -> None:
        try:
            self._gfile.rmtree(path)
        except _tensorflow().errors.NotFoundError:
            if self.exists(path):  # `ram://` says it of directories below that have just gone.
                raise

    @override
    def rename(self, source: str, target: str) -> None:
        self._gfile.rename(source, target, overwrite=True)


class _Fsspec(FileSystem):
    """A file system of fsspec."""

    def __init__(self, system: Any) -> None:
        self._system = system

    @override
    def open(self, path: str, mode: str) -> io.BufferedIOBase:
        opened: io.BufferedIOBase = self._system.open(path, mode)
        return opened

    @override
    def exists(self, path: str) -> bool:
        return bool(self._system.exists(path))

    @override
    def isdir(self, path: str) -> bool:
        return bool(self._system.isdir(path))

    @override
    def listdir(self, path: str) -> list[str]:
        found = self._system.ls(path, detail=False, refresh=True)
        return [name.rstrip("/").rpartition("/")[2] for name in found]

    @override
    def glob(self, pattern: str) -> list[str]:
        place = file_paths.dirname(pattern.partition("*")[0].partition("?")[0].partition("[")[0])
        length = len(self._system._strip_protocol(place))
        return [
            file_paths.join(place, name[length:].lstrip("/")) for name in self._system.glob(pattern)
        ]

    @override
    def size(self, path: str) -> int:
        return int(self._system.size(path))

    @override
    def makedirs(self, path: str) -> None:
        self._system.makedirs(path, exist_ok=True)

    @override
    def remove(self, path: str) -> None:
        self._system.rm_file(path)

    @override
    def rmtree(self, path: str) -> None:
        self._system.rm(path, recursive=True)

    @override
    def rename(self, source: str, target: str) -> None:
        self._system.mv(source, target)


class _RawFile(io.RawIOBase):
    """A file of TensorFlow's for Python's buffers."""

    def __init__(self, file: Any, path: str, mode: str) -> None:
        super().__init__()
        self._file = file
        self._path = path
        self._mode = mode
        with os_errors_raised(path):
            # An empty file appears too; one that is missing is found now.
            _ = file.size() if mode == "rb" else file.write(b"")

    @override
    def readable(self) -> bool:
        return self._mode == "rb"

    @override
    def writable(self) -> bool:
        return self._mode != "rb"

    @override
    def seekable(self) -> bool:
        return self._mode == "rb"

    @override
    def readinto(self, buffer: Any) -> int:
        with os_errors_raised(self._path):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @override
    def write(self, data: Any) -> int:
        with os_errors_raised(self._path):
            self._file.write(bytes(data))
        return len(data)

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._file.size()}[whence]
        with os_errors_raised(self._path):
            self._file.seek(start + offset)
        return start + offset

    @override
    def tell(self) -> int:
        with os_errors_raised(self._path):
            return int(self._file.tell())

    @override
    def close(self) -> None:
        if not self.closed:
            super().close()
            with os_errors_raised(self._path):
                self._file.close()


def find(path: str) -> FileSystem:
    """Returns the file system of a path.

    Raises:
        OSError: If there is none for its scheme.
    """
    if file_paths.is_local(path):
        return _Local()
    return _TensorFlow() if is_known_to_tensorflow(path) else _Fsspec(find_fsspec(path))


def is_known_to_tensorflow(path: file_paths.Path) -> bool:
    """True if TensorFlow itself can read and write there."""
    kind = file_paths.scheme(path)
    return kind in _OWN_SCHEMES or kind in _tensorflow().io.gfile.get_registered_schemes()


@contextlib.contextmanager
def os_errors_raised(path: str) -> Iterator[None]:
    """Raises what a file system says inside as an `OSError` that names the path."""
    try:
        yield
    except OSError as error:
        if file_paths.is_local(path):
            raise
        raise _to_os_error(error, path) from error
    except Exception as error:
        if file_paths.is_local(path) and not isinstance(error, _tensorflow().errors.OpError):
            raise
        raise _to_os_error(error, path) from error


def find_fsspec(path: str) -> Any:
    """Returns fsspec's object for the file system of a URL; `OSError` if there is none."""
    kind = file_paths.scheme(path)
    try:
        return importlib.import_module("fsspec.core").url_to_fs(path)[0]
    except ImportError as error:
        found = importlib.util.find_spec("fsspec")
        detail = f" ({error})" if found else ""
        reason = (
            f"the package for {kind}:// is not installed{detail}"
            if found
            else f"there is no file system for {kind}://. TensorFlow knows gs:// and ram://; "
            'others come with fsspec: pip install "quintain[remote]"'
        )
    except ValueError as error:
        if not str(error).startswith("Protocol not known"):
            raise OSError(errno.EINVAL, str(error), path) from error
        import difflib  # noqa: PLC0415 - few processes meet a wrong name

        near = difflib.get_close_matches(kind, _COMMON_SCHEMES, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}://" if near else ""
        reason = f"there is no file system for {kind}://, neither in TensorFlow nor in fsspec{hint}"
    raise OSError(errno.EPROTONOSUPPORT, reason, path)


@functools.cache
def _tensorflow() -> Any:
    return importlib.import_module("tensorflow")


def plain(name: str) -> str:
    """Returns a name without the `/` that some file systems put behind directories."""
    return name.rstrip("/")


def _to_os_error(error: Exception, path: str) -> OSError:
    code = getattr(error, "errno", None) or _CODES.get(type(error).__name__)
    said = getattr(error, "strerror", None) or getattr(error, "message", None) or error
    said = str(said).strip().partition("\n")[0].strip()
    if code == errno.ENOENT:
        said = os.strerror(code) if "bucket" not in said else said
    return OSError(code or errno.EIO, said or os.strerror(code or errno.EIO), path)
