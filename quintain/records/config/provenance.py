"""Provenance of an experiment: user, code and machine."""

import dataclasses
import json
import pathlib
from typing import Final

from quintain import errors
from quintain.records.rows import codec

FILE_NAME: Final = "provenance.json"
"""Name of the file in the directory of an experiment."""


@dataclasses.dataclass(frozen=True)
class GitState:
    """State of the git repository of the code."""

    commit: str
    """The commit that was checked out."""

    branch: str
    """Its branch; empty if none was checked out."""

    is_dirty: bool
    """Whether files that git knows had been changed since."""

    num_untracked: int = 0
    """Files and directories that git does not know, nor ignores."""

    diff: str = ""
    """The changes since the commit."""

    is_diff_cut: bool = False
    """Whether there were more changes than are kept."""


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Origin of an experiment. Variables of the environment are not part of it."""

    time: float
    """When it was created; seconds since the epoch."""

    command: tuple[str, ...]
    """Program and arguments; values that look like secrets are `***`."""

    working_dir: str
    """Directory in which the command was given."""

    python: str
    """Version of Python."""

    platform: str
    """The operating system."""

    host: str
    """Name of the machine."""

    processor: str
    """Name of the processor."""

    num_cores: int
    """Cores that could be used."""

    memory_bytes: int | None
    """Memory of the machine, or None if that is not known."""

    packages: dict[str, str]
    """Versions of the installed packages, by name."""

    git: GitState | None = None
    """The state of the code, or None if it was in no repository."""

    forked_from: int | None = None
    """The experiment whose code and provenance this one took over."""


def load(model_dir: str) -> Provenance | None:
    """Returns where the experiment comes from whose code is in a directory.

    Returns:
        None if nobody said it.

    Raises:
        DamagedFileError: If the file can't be understood.
    """
    path = pathlib.Path(model_dir).parent / FILE_NAME
    if not model_dir or not path.is_file():
        return None
    try:
        return codec.from_plain(Provenance, json.loads(path.read_bytes()))
    except (ValueError, TypeError, AttributeError) as error:
        raise errors.DamagedFileError(f"{path}: can't be understood: {error}") from error
