"""Uploads of checkpoints from processes on other machines to the master.

What arrives lies in the directory of unfinished checkpoints of its process
(`checkpoint_manifest.unfinished_name`), which goes when that process is forgotten. Only when all
files are there as the manifest says, it gets the name of the checkpoint.
"""

import contextlib
import dataclasses
import pathlib
import shutil
import threading
from collections.abc import Iterator, Mapping
from typing import Final

from quintain import errors
from quintain.files import atomic_write, changing_files
from quintain.master.transfer import pieces
from quintain.records import checkpoint_manifest
from quintain.records.views import file_listing

MOST_FILES: Final = 100_000
"""Files of one checkpoint."""


@dataclasses.dataclass(frozen=True)
class Owner:
    """Owner of a checkpoint; its manifest has to say the same."""

    home_id: str
    """The home."""

    experiment_id: int
    """The experiment."""

    trial_id: int
    """The trial."""

    launch_id: str
    """The process."""


@dataclasses.dataclass(frozen=True)
class Received:
    """Received part of an upload."""

    is_complete: bool
    """Whether it is a checkpoint already."""

    files: dict[str, int] = dataclasses.field(default_factory=dict)
    """Bytes that are there of each file, by its path."""


@dataclasses.dataclass(frozen=True)
class _Upload:
    root: pathlib.Path
    name: str
    owner: Owner
    sizes: Mapping[str, int]
    lock: threading.Lock
    """Held by who changes what is there of any upload of the process."""

    @property
    def parent(self) -> pathlib.Path:
        return self.root / checkpoint_manifest.unfinished_name(self.owner.launch_id)

    @property
    def directory(self) -> pathlib.Path:
        return self.parent / self.name

    def require_open(self) -> None:
        """Checks that files may be written."""
        if not self.directory.is_dir():
            raise errors.StateError(f"checkpoint {self.name}: its upload was not begun.")

    def count_missing(self) -> int:
        """Returns the bytes that are still to come, 0 if nobody waits for them any more."""
        if not self.directory.is_dir():
            return 0
        there = sum(checkpoint_manifest.list_files(self.directory).values())
        return max(sum(self.sizes.values()) - there, 0)


class Uploads:
    """Takes checkpoints; one at a time from each process. Methods may be called by threads.

    Args:
        kept_bytes: Free space that is left on the disk.
    """

    def __init__(self, *, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._pieces = pieces.Pieces()
        self._lock = threading.Lock()
        self._uploads: dict[str, _Upload] = {}

    def begin(
        self, root: pathlib.Path, owner: Owner, name: str, sizes: Mapping[str, int]
    ) -> Received:
        """Begins an upload, or goes on with it, and says what is there of it.

        Raises:
            ConfigError: If paths or sizes are not allowed.
            CheckpointError: If there is no space for it, with all others that are on their way.
        """
        _check_sizes(sizes)
        if (root / name).is_dir():
            return Received(is_complete=True)
        with self._lock:
            former = self._uploads.get(owner.launch_id)
            lock = threading.Lock() if former is None else former.lock
            upload = _Upload(root, name, owner, dict(sizes), lock)
            if former is not None and (former.name, former.sizes) == (name, upload.sizes):
                upload = former
            else:
                self._pieces.stop(upload.parent)
            with pieces.explaining(upload.directory):
                upload.directory.mkdir(parents=True, exist_ok=True)
            self._uploads[owner.launch_id] = upload
        with upload.lock:
            if (root / name).is_dir():  # It has become a checkpoint just now.
                with self._lock:
                    self._forget(upload)
                return Received(is_complete=True)
            with pieces.explaining(upload.directory):
                for path in changing_files.list_directory(upload.parent):
                    if path.name != name:
                        changing_files.remove(path)
                received = _clear(upload)
            self._require_space(upload)
        return Received(is_complete=False, files=received)

    def _require_space(self, upload: _Upload) -> None:
        """Checks that an upload has room beside all others, which go on meanwhile."""
        with self._lock:
            self._uploads = {
                launch: each for launch, each in self._uploads.items() if each.parent.is_dir()
            }
            others = list(self._uploads.values())
        try:
            missing = sum(each.count_missing() for each in others)
            pieces.require_space(upload.root, missing, self._kept_bytes)
        except errors.CheckpointError:
            with self._lock:
                self._forget(upload)
            raise

    @contextlib.contextmanager
    def write(self, launch_id: str, name: str, path: str, offset: int) -> Iterator[pieces.Piece]:
        """Gives what writes a piece of a file; see `pieces.Pieces.begin`.

        Raises:
            StateError: If the upload was not begun, by this master, or is complete.
            ConfigError: If it has no such file.
        """
        upload = self._find(launch_id, name)
        if path not in upload.sizes:
            raise errors.ConfigError(f"file {errors.show(path)}: the checkpoint has no such file.")
        with contextlib.ExitStack() as stack:
            with upload.lock:
                upload.require_open()
                target, most_bytes = upload.directory / path, upload.sizes[path]
                piece = stack.enter_context(self._pieces.begin(target, offset, most_bytes))
            yield piece

    def commit(self, root: pathlib.Path, owner: Owner, name: str) -> None:
        """Makes an upload a checkpoint; once it is one, that is no error.

        Raises:
            StateError: If it was not begun, files are not there in full, or are not what the
                manifest says; what is wrong is to be sent again.
            ConfigError: If the manifest is another's.
            CheckpointError: If it can't be done.
        """
        if (root / name).is_dir():
            return
        upload = self._find(owner.launch_id, name)
        with upload.lock:
            if (root / name).is_dir():
                return
            upload.require_open()
            self._pieces.stop(upload.directory)
            _check(upload)
            with pieces.explaining(upload.directory):
                atomic_write.sync_tree(upload.directory)
                upload.directory.rename(root / name)
                atomic_write.sync(root)
            with contextlib.suppress(OSError):  # The process may have begun another one.
                upload.parent.rmdir()
        with self._lock:
            self._drop(upload)

    def discard(self, launch_id: str, name: str) -> None:
        """Lets go of an upload; what is not there is no error."""
        with self._lock:
            upload = self._uploads.get(launch_id)
            if upload is not None and upload.name == name:
                self._forget(upload)

    def _forget(self, upload: _Upload) -> None:
        self._pieces.stop(upload.parent)
        shutil.rmtree(upload.parent, ignore_errors=True)
        self._drop(upload)

    def _drop(self, upload: _Upload) -> None:
        if self._uploads.get(upload.owner.launch_id) is upload:
            del self._uploads[upload.owner.launch_id]

    def _find(self, launch_id: str, name: str) -> _Upload:
        with self._lock:
            upload = self._uploads.get(launch_id)
        if upload is None or upload.name != name:
            raise errors.StateError(f"checkpoint {name}: its upload was not begun.")
        return upload


def _check_sizes(sizes: Mapping[str, int]) -> None:
    if len(sizes) > MOST_FILES:
        raise errors.ConfigError(f"sizes: got {len(sizes)} files, expected at most {MOST_FILES}.")
    folders: set[str] = set()
    for name, size in sizes.items():
        folders.update(map(str, pathlib.PurePosixPath(file_listing.check_path(name)).parents))
        if size < 0:
            raise errors.ConfigError(
                f"sizes: got {size} for {errors.show(name)}, expected 0 or more."
            )
    for name in folders.intersection(sizes):
        raise errors.ConfigError(f"file {errors.show(name)}: is a directory of another file.")


def _clear(upload: _Upload) -> dict[str, int]:
    """Takes away what can't be part of an upload; returns the bytes of each file that is there."""
    received = {}
    for name, size in checkpoint_manifest.list_files(upload.directory).items():
        path = upload.directory / name
        if name.endswith("/"):
            continue
        if size > upload.sizes.get(name, -1):
            path.unlink()
        else:
            received[name] = size
    for name, size in upload.sizes.items():
        if size == 0 and name not in received:
            (upload.directory / name).parent.mkdir(parents=True, exist_ok=True)
            (upload.directory / name).touch()
            received[name] = 0
    return received


def _check(upload: _Upload) -> None:
    """Checks that what arrived is what the manifest says. What is not is taken away."""
    there = checkpoint_manifest.list_files(upload.directory)
    for name, size in upload.sizes.items():
        if there.get(name) != size:
            raise errors.StateError(
                f"file {name}: {there.get(name, 0)} of {size} bytes are there; send the rest."
            )
    try:
        manifest = checkpoint_manifest.read(upload.directory)
    except errors.CheckpointError as error:
        raise errors.ConfigError(f"checkpoint {upload.name}: {error}") from error
    named = (manifest.home_id, manifest.experiment_id, manifest.trial_id, manifest.launch_id)
    if named != dataclasses.astuple(upload.owner):
        raise errors.ConfigError(
            f"checkpoint {upload.name}: its manifest names {named}, expected "
            f"{dataclasses.astuple(upload.owner)}."
        )
    others = {name for name in upload.sizes if name != checkpoint_manifest.FILE_NAME}
    if others != manifest.hashes.keys():
        odd = sorted(others.symmetric_difference(manifest.hashes))
        raise errors.ConfigError(
            f"checkpoint {upload.name}: its manifest and its files differ by "
            f"{errors.enumerate_some(odd)}."
        )
    for name, expected in sorted(manifest.hashes.items()):
        if checkpoint_manifest.hash_file(upload.directory / name) != expected:
            (upload.directory / name).unlink()
            raise errors.StateError(f"file {name}: is not what was sent; send it again.")
