"""Names of files and directories, on this machine or elsewhere (`gs://bucket/run`), as text.

`os.path` and `pathlib` take the `//` of a URL for one `/`, and a bucket for a directory. Whatever
users may give as a URL is taken apart and put together here; what is there, `file_io` says.
"""

import os
import re
from typing import Final

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)(?:::[^/]*)?://")
_WITHOUT_AUTHORITY: Final = ("file", "local", "memory", "ram")
"""Schemes whose URLs name no bucket or machine before the path."""

_OF_OBJECTS: Final = ("abfs", "abfss", "adl", "az", "gcs", "gs", "oci", "oss", "s3", "s3a")
"""Schemes of object stores: what is written appears when it is complete, and nothing is renamed."""

Path = str | os.PathLike[str]


def is_local(path: Path) -> bool:
    """True if a path is one of the operating system's, not one such as `gs://...`."""
    return not _URL.match(os.fspath(path))


def scheme(path: Path) -> str:
    """Returns the part of a URL before `://`; empty for a local path.

    Example:
        >>> scheme("gs://bucket/run"), scheme("runs/a")
        ('gs', '')
    """
    found = _URL.match(os.fspath(path))
    return found["scheme"].lower() if found else ""


def is_object(path: Path) -> bool:
    """True if a path is that of an object in a store such as `gs://`, and not of a file."""
    return scheme(path) in _OF_OBJECTS


def join(first: Path, *names: Path) -> str:
    """Returns names one below the other; one that is a URL or absolute starts anew.

    Example:
        >>> join("gs://bucket", "run", "ckpt-1"), join("runs/a", "gs://bucket/x")
        ('gs://bucket/run/ckpt-1', 'gs://bucket/x')
    """
    parts = [os.fspath(name) for name in (first, *names)]
    start = max((at for at, part in enumerate(parts) if _URL.match(part)), default=0)
    return os.path.join(*parts[start:])


def split(path: Path) -> tuple[str, str]:
    """Returns the directory and the name in it; a bucket is its own directory.

    Example:
        >>> split("gs://bucket/run/ckpt-1"), split("gs://bucket"), split("ram://x")
        (('gs://bucket/run', 'ckpt-1'), ('gs://bucket', ''), ('ram://', 'x'))
    """
    text = os.fspath(path)
    root = _root(text)
    if not root:
        return os.path.split(text)
    head, _, name = text[len(root) :].rpartition("/")
    return (root + head).rstrip("/") if head.strip("/") else root, name


def dirname(path: Path) -> str:
    """Returns the directory of a path; empty for a name in the working directory."""
    return split(path)[0]


def basename(path: Path) -> str:
    """Returns the last name of a path."""
    return split(path)[1]


def suffix(path: Path) -> str:
    """Returns the ending of a name, with its dot; empty if there is none."""
    return os.path.splitext(basename(path))[1]


def normal(path: Path) -> str:
    """Returns the shortest spelling of a path.

    Example:
        >>> normal("gs://bucket/run/"), normal("runs//a/"), normal("gs://bucket")
        ('gs://bucket/run', 'runs/a', 'gs://bucket')
    """
    text = os.fspath(path)
    root = _root(text)
    if not root:
        return os.path.normpath(text)
    return root + text[len(root) :].rstrip("/")


def absolute(path: Path) -> str:
    """Returns a path that does not depend on the working directory."""
    return os.path.abspath(path) if is_local(path) else normal(path)


def _root(text: str) -> str:
    """Returns the part of a URL that has no parent; empty for a local path."""
    found = _URL.match(text)
    if found is None:
        return ""
    rest = text[found.end() :]
    if found["scheme"].lower() in _WITHOUT_AUTHORITY:
        return text[: len(text) - len(rest.lstrip("/"))]
    return text[: found.end()] + rest.partition("/")[0]
