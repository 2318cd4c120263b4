"""Listings of a master's files, for processes on other machines that fetch them."""

import dataclasses
import pathlib
from typing import Final

from quintain import errors

_MOST_CHARACTERS: Final = 1024
_MOST_PART_BYTES: Final = 255
_MARK_BEGIN: Final = ".quintain-"
_MARK_END: Final = ".mark"


@dataclasses.dataclass(frozen=True)
class Places:
    """Paths of the master's directories, for processes that may see them, too."""

    home: str
    mark: str
    """What the file `mark_name` in the home, and in the directories of checkpoints that the trial
    needs, says if it is the master's. Each master has its own, so that a copy of a directory on
    another machine is not taken for it."""


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """One file."""

    num_bytes: int
    sha256: str = ""
    """Hash of its content; empty where it is not known."""

    is_executable: bool = False
    """Whether its owner may run it."""


@dataclasses.dataclass(frozen=True)
class Listing:
    """All files of a directory."""

    files: dict[str, FileFacts]
    """Files by their paths, with `/`, relative to the directory."""

    links: dict[str, str] = dataclasses.field(default_factory=dict)
    """Targets of symbolic links by their paths; each relative, and inside of the directory."""

    digest: str = ""
    """Hash of all of this; empty where it is not known."""

    @property
    def num_bytes(self) -> int:
        """Size of all files."""
        return sum(facts.num_bytes for facts in self.files.values())


def mark_name(home_id: str) -> str:
    """Returns the name of the file by which a directory of a master is recognised."""
    return f"{_MARK_BEGIN}{home_id}{_MARK_END}"


def is_mark(name: str) -> bool:
    """Returns whether a file is the mark of a master's directory, of whichever home."""
    return name.startswith(_MARK_BEGIN) and name.endswith(_MARK_END)


def check_path(name: str) -> str:
    """Returns a path relative to a directory, as somebody else gave it, if it stays inside.

    Raises:
        ConfigError: If it is not the plain path of a file.

    Example:
        >>> check_path("ranks/1/state.npz")
        'ranks/1/state.npz'
        >>> check_path("../metadata.json")
        Traceback (most recent call last):
        ...
        quintain.errors.ConfigError: file '../metadata.json': expected a path like 'part/name', ...
    """
    parts = name.split("/")
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        longest = _MOST_PART_BYTES + 1
    is_plain = pathlib.PurePosixPath(name).parts == tuple(parts) and "\0" not in name
    if (
        not is_plain
        or "\\" in name
        or not {"", ".", ".."}.isdisjoint(parts)
        or len(name) > _MOST_CHARACTERS
        or longest > _MOST_PART_BYTES
    ):
        raise errors.ConfigError(
            f"file {errors.show(name)}: expected a path like 'part/name', without '..', of at most "
            f"{_MOST_CHARACTERS} characters."
        )
    return name


def make_target(directory: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a file to write below a directory, and makes the directories to it.

    Args:
        directory: What the user named.
        name: Path relative to it, as somebody else gave it.

    Raises:
        DataError: If the path leads out of the directory, by itself or by a link that is there.

    Example:
        >>> make_target(pathlib.Path("out"), "../.bashrc")
        Traceback (most recent call last):
        ...
        quintain.errors.DataError: file '../.bashrc': leads out of out; nothing is written there.
    """
    relative = pathlib.PurePosixPath(name)
    target = directory / relative
    is_below = bool(relative.parts) and not relative.is_absolute() and ".." not in relative.parts
    # Links that are there may lead anywhere, and making directories follows them.
    if not is_below or not target.resolve().is_relative_to(directory.resolve()):
        raise errors.DataError(
            f"file {name!r}: leads out of {directory}; nothing is written there."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
