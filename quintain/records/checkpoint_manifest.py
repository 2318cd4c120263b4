"""What the directory of a trial's checkpoint says about itself, and whether all of it is there.

The manifest, `metadata.json`, names the home, the experiment, the trial and the process that the
checkpoint is of. So it is known for whom a directory was written, even if a database was lost. It
lists all other files with their sizes and hashes, so that a damaged checkpoint is recognised
before anything is read from it, without TensorFlow.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any, Final

from quintain import durable_files, errors

FORMAT: Final = 1
"""Version of the layout."""

FILE_NAME: Final = "metadata.json"

_PIECE_BYTES: Final = 2**20


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a checkpoint says about itself."""

    format: int
    """Version of the layout."""

    kind: str
    """Name of the class that wrote the state."""

    total_batches: int
    """Batches that the trial had trained on."""

    experiment_id: int
    """The experiment."""

    trial_id: int
    """The trial."""

    seed: int
    """The trial's seed."""

    hparams: dict[str, Any]
    """The trial's hyperparameters."""

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
        values = durable_files.read_json(path)
        manifest = Manifest(**values)
    except (OSError, errors.DamagedFileError, TypeError) as error:
        raise errors.CheckpointError(
            f"{directory}: there is no complete checkpoint of a trial here: {error}."
        ) from error
    if manifest.format != FORMAT:
        raise errors.CheckpointError(
            f"{path}: the layout is of version {manifest.format}, expected {FORMAT}."
        )
    return manifest


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
    if not directory.parent.is_dir():
        raise errors.CheckpointError(
            f"{directory.parent}: the directory of the checkpoints is not there. Is its disk "
            "mounted?"
        )
    if not directory.is_dir():
        return "its directory is not there"
    try:
        try:
            manifest = read(directory)
        except errors.CheckpointError as error:
            if isinstance(error.__cause__, PermissionError):
                raise
            return f"{FILE_NAME} can't be read"
        return _find_damage(directory, {**manifest.sizes, **sizes}, manifest.hashes)
    except OSError as error:
        raise errors.CheckpointError(f"{directory}: can't be read: {error}.") from error


def _find_damage(
    directory: pathlib.Path, sizes: Mapping[str, int], hashes: Mapping[str, str]
) -> str | None:
    for name, size in sorted(sizes.items()):
        if name.endswith("/"):
            continue
        path = directory / name
        if not path.is_file():
            return f"{name} is not there"
        found = path.stat().st_size
        if found != size:
            return f"{name} has {found} bytes, expected {size}"
    for name, expected in sorted(hashes.items()):
        if hash_file(directory / name) != expected:
            return f"{name} is not what was written"
    return None


def list_files(directory: pathlib.Path) -> dict[str, int]:
    """Returns the sizes in bytes of all files below a directory; directories end in `/`."""
    files = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        files[f"{name}/" if path.is_dir() else name] = 0 if path.is_dir() else path.stat().st_size
    return files


def hash_files(directory: pathlib.Path) -> dict[str, str]:
    """Returns the SHA-256 of all files below a directory by their paths."""
    return {
        path.relative_to(directory).as_posix(): hash_file(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def hash_file(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
