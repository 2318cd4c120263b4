"""Directories that others change while they are looked at: what goes meanwhile is left out.

Between the moment in which a name is read and the one in which its file is looked at, another
process or thread may delete the file or give it another name. That is no fault of who looks.
"""

import contextlib
import errno
import os
import pathlib
import shutil
import stat
from collections.abc import Iterator
from typing import Final

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


def is_gone(error: BaseException) -> bool:
    """True if an error says that a file is not where it was looked for."""
    return isinstance(error, OSError) and error.errno in _GONE


@contextlib.contextmanager
def missing_files_skipped() -> Iterator[None]:
    """Goes on behind the block if a file in it is gone.

    Example:
        >>> with missing_files_skipped():
        ...     os.stat("/there/is/none")
    """
    try:
        yield
    except OSError as error:
        if not is_gone(error):
            raise


def find(path: pathlib.Path) -> os.stat_result | None:
    """Returns what the system knows of a file, which links lead to, or None if it is gone."""
    with missing_files_skipped():
        return path.stat()
    return None


def list_directory(directory: pathlib.Path) -> list[pathlib.Path]:
    """Returns what is in a directory, sorted; nothing if it is gone."""
    with missing_files_skipped():
        return sorted(directory.iterdir())
    return []


def walk(directory: pathlib.Path) -> dict[str, os.stat_result]:
    """Returns all that is below a directory by its path with `/`, sorted; nothing if it is gone.

    Links are followed to what they name, but not into directories.

    Raises:
        OSError: If a part of it can't be read.

    Example:
        >>> import tempfile
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> (root / "ranks").mkdir()
        >>> (root / "ranks" / "0").write_text("ab")
        2
        >>> {name: measure(found) for name, found in walk(root).items()}
        {'ranks': 0, 'ranks/0': 2}
    """
    found: dict[str, os.stat_result] = {}

    def note(error: OSError) -> None:
        if not is_gone(error):
            raise error

    for folder, folders, files in os.walk(directory, onerror=note):
        for name in (*folders, *files):
            path = pathlib.Path(folder, name)
            facts = find(path)
            if facts is not None:
                found[path.relative_to(directory).as_posix()] = facts
    return dict(sorted(found.items(), key=lambda item: item[0].split("/")))


def measure(facts: os.stat_result) -> int:
    """Returns the bytes of a file; 0 for a directory."""
    return 0 if stat.S_ISDIR(facts.st_mode) else facts.st_size


def measure_all(directory: pathlib.Path) -> int:
    """Returns the bytes of all files below a directory; 0 if it is gone.

    Raises:
        OSError: As `walk`.
    """
    return sum(map(measure, walk(directory).values()))


def remove(path: pathlib.Path) -> None:
    """Deletes a file, a link, or a directory with all that is in it; it may be gone already.

    Raises:
        OSError: If it can't be deleted.
    """
    with missing_files_skipped():
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        # Where another process deletes some of it, the rest has to go as well; the second attempt
        # says what can't be deleted.
        shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(path)
