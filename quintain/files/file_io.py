"""Reads and writes files wherever they are: on this machine, or behind a URL.

A local path goes to the operating system, a scheme that TensorFlow knows (`gs://`, `ram://`) to
TensorFlow, and any other (`s3://`, `memory://`) to fsspec where that is installed. Whoever calls
these functions need not know which: all of them raise `OSError`, whose `filename` is the path and
whose `strerror` is a sentence for people.

What TensorFlow itself is to read (checkpoints, records) may lie where only fsspec gets to:
`fetch` then makes a local copy. What it is to write may not; `check_writable` says so.
"""

import io
import os
from typing import Any

from quintain import errors
from quintain.files import file_paths, file_systems


def open(path: file_paths.Path, mode: str = "r") -> Any:
    r"""Opens a file; text is UTF-8, with its line ends as they are.

    Args:
        path: The file.
        mode: `r`, `w` or `a`, with `b` for bytes. What is written elsewhere than on a local disk
            appears when the file is closed.

    Raises:
        OSError: If it can't be opened; reading and writing raise it as well.

    Example:
        >>> with open("ram://doctest/x.txt", "w") as file:
        ...     _ = file.write("a\nb")
        >>> read_bytes("ram://doctest/x.txt"), listdir("ram://doctest")
        (b'a\nb', ['x.txt'])
    """
    text = os.fspath(path)
    binary = mode.replace("t", "").replace("b", "") + "b"
    with file_systems.os_errors_raised(text):
        file = file_systems.find(text).open(text, binary)
    return file if "b" in mode else io.TextIOWrapper(file, encoding="utf-8", newline="\n")


def read_bytes(path: file_paths.Path) -> bytes:
    """Returns what a file holds."""
    with open(path, "rb") as file:
        return bytes(file.read())


def read_text(path: file_paths.Path) -> str:
    """Returns the text in a file; `UnicodeDecodeError` if it is not UTF-8."""
    return read_bytes(path).decode()


def exists(path: file_paths.Path) -> bool:
    """True if there is a file or a directory."""
    with file_systems.os_errors_raised(text := os.fspath(path)):
        return file_systems.find(text).exists(text)


def isdir(path: file_paths.Path) -> bool:
    """True if there is a directory."""
    with file_systems.os_errors_raised(text := os.fspath(path)):
        return file_systems.find(text).isdir(text)


def isfile(path: file_paths.Path) -> bool:
    """True if there is a file that is no directory."""
    if file_paths.is_local(path):
        return os.path.isfile(path)
    return exists(path) and not isdir(path)


def size(path: file_paths.Path) -> int:
    """Returns the bytes of a file."""
    with file_systems.os_errors_raised(text := os.fspath(path)):
        return file_systems.find(text).size(text)


def total_size(path: file_paths.Path) -> int:
    """Returns the bytes of all files below a directory."""
    paths = [file_paths.join(path, name) for name in listdir(path)]
    return sum(total_size(one) if isdir(one) else size(one) for one in paths)


def listdir(path: file_paths.Path) -> list[str]:
    """Returns the names in a directory, without their order; empty is the working directory."""
    with file_systems.os_errors_raised(text := os.fspath(path)):
        return [
            name
            for one in file_systems.find(text).listdir(text)
            if (name := file_systems.plain(one))
        ]


def glob(pattern: str) -> list[str]:
    """Returns the files that match a pattern, sorted."""
    with file_systems.os_errors_raised(pattern):
        return sorted(map(file_systems.plain, file_systems.find(pattern).glob(pattern)))


def makedirs(path: file_paths.Path) -> None:
    """Makes a directory and those above it, where they are missing."""
    with file_systems.os_errors_raised(text := os.fspath(path)):
        file_systems.find(text).makedirs(text)


def remove(path: file_paths.Path) -> None:
    """Removes a file."""
    with file_systems.os_errors_raised(text := os.fspath(path)):
        file_systems.find(text).remove(text)


def rmtree(path: file_paths.Path) -> None:
    """Removes a directory and all in it."""
    with file_systems.os_errors_raised(text := os.fspath(path)):
        file_systems.find(text).rmtree(text)


def rename(source: file_paths.Path, target: file_paths.Path) -> None:
    """Moves a file over one that may be there; both are of one file system.

    Object stores such as `gs://` can't: there it is a copy, which appears whole, and a removal.
    """
    with file_systems.os_errors_raised(text := os.fspath(source)):
        file_systems.find(text).rename(text, os.fspath(target))


def move_directory(source: file_paths.Path, target: file_paths.Path) -> None:
    """Moves a directory to a name that is free; elsewhere than on a local disk file by file."""
    if file_paths.is_local(source):
        os.rename(source, target)
        return
    makedirs(target)
    for name in sorted(listdir(source)):
        old, new = file_paths.join(source, name), file_paths.join(target, name)
        (move_directory if isdir(old) else rename)(old, new)
    if exists(source):
        rmtree(source)


def check_writable(path: file_paths.Path, name: str) -> None:
    """Checks that TensorFlow can write below a path; nothing is tried out.

    Raises:
        ConfigError: If it can't.
    """
    if file_systems.is_known_to_tensorflow(path):
        return
    text = os.fspath(path)
    try:
        file_systems.find(text)
    except OSError as error:
        raise errors.ConfigError(f"{name}: got {text!r}, but {error.strerror}.") from error
    raise errors.ConfigError(
        f"{name}: got {text!r}, but TensorFlow, which writes there, does not know "
        f"{file_paths.scheme(text)}://. Give a local directory, one of gs://, or mount the storage "
        "as a directory; `quintain train` and `quintain export` go through a copy. Configs, "
        "vocabularies and data may be read from there."
    )


def fetch(path: file_paths.Path) -> str:
    """Returns a path by which TensorFlow reads a file or a directory: itself, or a local copy.

    The copy's path depends on nothing but `path`, because positions in data, which checkpoints
    hold, name the file. It is made again where the file has another size or version.

    Raises:
        OSError: If the file can't be read, or the copy can't be written.
    """
    text = os.fspath(path)
    if file_systems.is_known_to_tensorflow(text):
        return text
    from quintain.files import fetched_files  # noqa: PLC0415 - most files are in reach

    with file_systems.os_errors_raised(text):
        return fetched_files.copy(file_systems.find_fsspec(text), text)
