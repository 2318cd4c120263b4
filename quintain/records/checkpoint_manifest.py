"""Manifest of a trial's checkpoint, and the check that its files are whole.

The manifest, `metadata.json`, names the home, the experiment, the trial and the process that the
checkpoint is of. So it is known for whom a directory was written, even if a database was lost. It
lists all other files with their sizes and hashes, so that a damaged checkpoint is recognised
before anything is read from it, without TensorFlow.
"""

import dataclasses
import hashlib
import json
import pathlib
import stat
import typing
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.files import changing_files, disk_errors
from quintain.records.views import file_listing

FORMAT: Final = 1
"""Version of the layout."""

FILE_NAME: Final = "metadata.json"

_PIECE_BYTES: Final = 2**20


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Content of a checkpoint's manifest."""

    format: int
    """Version of the layout."""

    kind: str
    """Name of the class that wrote the state."""

    total_batches: int
    experiment_id: int
    trial_id: int
    seed: int
    hparams: dict[str, Any]
    home_id: str = ""
    """The home that the experiment is of; empty if it was written before homes had names."""

    launch_id: str = ""
    """The process that wrote it; empty where that is not known."""

    hashes: dict[str, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of each other file by its path; empty if none were taken."""

    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    """Bytes of each other file by its path."""


def unfinished_name(launch_id: str) -> str:
    """Returns the name under which a process writes a checkpoint before it is complete.

    Example:
        >>> unfinished_name("t7-0123456789ab")
        '.t7-0123456789ab.tmp'
    """
    return f".{launch_id}.tmp"


def read(directory: pathlib.Path) -> Manifest:
    """Returns what a checkpoint says about itself.

    Raises:
        CheckpointError: If it says nothing, or has another layout.
    """
    path = directory / FILE_NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise errors.CheckpointError(
            f"{directory}: there is no complete checkpoint of a trial here: {error}."
        ) from error
    return parse(data, str(directory))


def parse(data: bytes, where: str) -> Manifest:
    """Returns the manifest that a content holds.

    Raises:
        CheckpointError: If it can't be understood, or has another layout.
    """
    try:
        manifest = Manifest(**json.loads(data))
        _check_types(manifest)
    except (ValueError, RecursionError, TypeError) as error:
        raise errors.CheckpointError(
            f"{where}: there is no complete checkpoint of a trial here: {FILE_NAME} can't be "
            f"understood ({len(data)} bytes; {error}). It was cut or damaged after it was written."
        ) from error
    if manifest.format != FORMAT:
        raise errors.CheckpointError(
            f"{where}/{FILE_NAME}: the layout is of version {manifest.format}, expected {FORMAT}."
        )
    return manifest


def _check_types(manifest: Manifest) -> None:
    """Checks types and paths of a manifest that anybody may have written."""
    for name, kind in typing.get_type_hints(Manifest).items():
        expected = typing.get_origin(kind) or kind
        if type(getattr(manifest, name)) is not expected:
            raise TypeError(f"{name}: expected {expected.__name__}")
    for table, kind in ((manifest.hashes, str), (manifest.sizes, int)):
        if any(type(one) is not kind for one in table.values()):
            raise TypeError(f"expected {kind.__name__} for each file")
    for name in (*manifest.hashes, *manifest.sizes):
        path = pathlib.PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name:
            raise TypeError(f"{errors.show(name)} is no path of a file in it")


def is_storage(root: pathlib.Path) -> bool:
    """Returns whether checkpoints are, or were, kept in a directory: it has a mark, or has some.

    Where a disk is not mounted, an empty directory takes its place, or none.

    Raises:
        OSError: If it can't be read.
    """
    names = [path.name for path in changing_files.list_directory(root)]
    return any(map(file_listing.is_mark, names)) or any(
        (root / name / FILE_NAME).is_file() for name in names
    )


def require_storage(root: pathlib.Path) -> None:
    """Checks that what is missing in a directory of checkpoints is lost, and not elsewhere.

    Raises:
        DiskAwayError: If it is no such directory now, which says nothing about checkpoints.
        OSError: If it can't be read.
    """
    if not is_storage(root):
        state = "empty" if root.is_dir() else "not there"
        raise errors.DiskAwayError(
            f"{root}: the directory of the checkpoints is {state}. Is its disk mounted? If they "
            f"are lost for good, make the file {root / file_listing.mark_name('lost')}."
        )


def find_damage(directory: pathlib.Path, sizes: Mapping[str, int]) -> str | None:
    """Returns what is wrong with the files of a checkpoint, or None if it is whole.

    Args:
        directory: The checkpoint.
        sizes: Bytes of each file that there should be, by its path, as it was reported when the
            checkpoint was saved; directories, which end in `/`, are not looked for.

    Raises:
        CheckpointError: If the storage can't be read at all, which says nothing about the
            checkpoint.
    """
    try:
        if not directory.is_dir():
            require_storage(directory.parent)
            return "its directory is not there"
        try:
            manifest = read(directory)
        except errors.CheckpointError as error:
            if error.__cause__ is not None and disk_errors.is_transient(error.__cause__):
                raise error.__cause__ from None
            return f"{FILE_NAME} can't be read"
        return _find_damage(directory, {**manifest.sizes, **sizes}, manifest.hashes)
    except OSError as error:
        kind = errors.DiskAwayError if disk_errors.is_lost(error) else errors.CheckpointError
        raise kind(f"{directory}: can't be read: {error}.") from error


def _find_damage(
    directory: pathlib.Path, sizes: Mapping[str, int], hashes: Mapping[str, str]
) -> str | None:
    facts = {name: changing_files.find(directory / name) for name in sizes}
    found = {
        name: each.st_size for name, each in facts.items() if each and stat.S_ISREG(each.st_mode)
    }
    damage = find_wrong_size(found, sizes)
    if damage is not None:
        return damage
    for name, expected in sorted(hashes.items()):
        if not (directory / name).is_file():
            return f"{name} is not there"
        if hash_file(directory / name) != expected:
            return f"{name} is not what was written"
    return None


def find_wrong_size(found: Mapping[str, int], sizes: Mapping[str, int]) -> str | None:
    """Returns which file is missing or has another size than it should have, or None.

    Args:
        found: Bytes of each file that is there, by its path.
        sizes: Bytes of each file that there should be; directories, which end in `/`, are left out.
    """
    for name, size in sorted(sizes.items()):
        if name.endswith("/"):
            continue
        if name not in found:
            return f"{name} is not there"
        if found[name] != size:
            return f"{name} has {found[name]} bytes, expected {size}"
    return None


def list_files(directory: pathlib.Path) -> dict[str, int]:
    """Returns the sizes in bytes of all files below a directory; directories end in `/`.

    What goes meanwhile is left out.
    """
    return {
        f"{name}/" if stat.S_ISDIR(found.st_mode) else name: changing_files.measure(found)
        for name, found in changing_files.walk(directory).items()
    }


def hash_files(directory: pathlib.Path) -> dict[str, str]:
    """Returns the SHA-256 of all files below a directory by their paths."""
    return {
        name: hash_file(directory / name)
        for name, found in changing_files.walk(directory).items()
        if stat.S_ISREG(found.st_mode)
    }


def hash_file(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
