"""Mirror of a training run's directory in an object store.

<url>/.quintain-run.json    the generation: what files there are, where, with their hashes
      ckpt-100.index, ...   the files
      .quintain-run/...     those that took another place, because the former was still needed

The description of a generation is written last, in one piece, and no object that the former
generation names is written before. So whoever reads finds one generation whole, wherever an upload
was torn; what none names goes after it.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from quintain import errors
from quintain.storage import remote_calls, remote_systems

FILE_NAME: Final = ".quintain-run.json"
"""Name of the description of a generation."""

_FORMAT: Final = 1
_OTHER: Final = ".quintain-run"
_NEVER_CHANGED: Final = re.compile(r"\.data-\d+-of-\d+$")
_LEFT_OUT: Final = re.compile(r"_temp(/|$)|\.incomplete|\.tempstate\d*$|\.lock$")
_STATE: Final = "checkpoint"
_ATTEMPTS: Final = 10


@dataclasses.dataclass(frozen=True)
class StoredFile:
    """A file of a generation."""

    key: str
    """Its place below the URL."""

    num_bytes: int
    """Its size."""

    sha256: str
    """Its hash; empty if it is not known."""


@dataclasses.dataclass(frozen=True)
class Generation:
    """State of a run at one time."""

    number: int = 0
    """Counts from 1; 0 if nothing was written in this way."""

    writer: str = ""
    """The process that wrote it."""

    files: Mapping[str, StoredFile] = dataclasses.field(default_factory=dict)
    """Its files by their paths."""


class RunMirror:
    """The copy of a run in an object store. One process writes to it at a time.

    Args:
        url: Where it is.
        patience_secs: How long calls that fail are repeated.
        options: What fsspec's file system is made with.

    Attributes:
        calls: Calls the store.
    """

    def __init__(
        self, url: str, *, patience_secs: float = 30.0, options: Mapping[str, Any] | None = None
    ) -> None:
        self.url = remote_systems.trim(url)
        self.calls = remote_calls.RemoteCalls(self.url, options or {}, patience_secs=patience_secs)
        self._writer = uuid.uuid4().hex
        self._hashes: dict[tuple[int, int, int], str] = {}
        self._last = Generation()

    def read(self) -> Generation:
        """Returns what is there: the last generation, or files that came by other ways.

        Raises:
            CheckpointError: If the store can't be read, or holds what can't be understood.
        """
        content = self._call(self._read_description, "reading")
        if content is None:
            sizes = self._call(self._list, "listing")
            return Generation(
                files={path: StoredFile(path, size, "") for path, size in sizes.items()}
            )
        try:
            return _parse(content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise errors.CheckpointError(
                f"{self.url}/{FILE_NAME}: can't be understood: {error}. It was damaged after it "
                "was written, or another program wrote it."
            ) from error

    def pull(self, directory: pathlib.Path) -> int:
        """Copies the run into an empty directory; returns the number of its files.

        Raises:
            CheckpointError: If it can't be read, or a file is not what was written.
        """
        self._last = found = self.read()

        def get(path: str) -> None:
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            one = found.files[path]
            for _ in range(2):  # It may have been torn on its way.
                self.calls.system.get_file(self._path(one.key), str(target))
                if target.stat().st_size == one.num_bytes and (
                    not one.sha256 or self._hash(target) == one.sha256
                ):
                    return
            raise errors.CheckpointError(
                f"{self.url}/{one.key}: is not what was written; the copy of {path} has "
                f"{target.stat().st_size} bytes, expected {one.num_bytes}."
            )

        sizes = {path: one.num_bytes for path, one in found.files.items()}
        self.calls.for_each(found.files, get, f"{self.url}: reading", sizes)
        return len(found.files)

    def claim(self) -> None:
        """Notes that this process writes from now on; another one that does so ends.

        Raises:
            CheckpointError: If it can't be written.
        """
        if self._last.number:
            self._describe(self._last.files)

    def push(self, directory: pathlib.Path) -> None:
        """Makes a directory, which does not change meanwhile, the next generation.

        Raises:
            CheckpointError: If it can't be written, or another process writes there.
        """
        former, files, new = self._last.files, {}, []
        for path in list_paths(directory):
            local = directory / path
            size, digest = local.stat().st_size, self._hash(local)
            known = former.get(path)
            if known is not None and known.sha256 == digest:
                files[path] = known
                continue
            is_free = known is None or known.key != path
            files[path] = StoredFile(path if is_free else f"{_OTHER}/{path}", size, digest)
            new.append(path)
        if files == former and self._last.writer == self._writer:
            return
        self._require_own()
        self._put(directory, {path: files[path].key for path in new})
        self._describe(files)
        self._remove({one.key for one in former.values()} - {one.key for one in files.values()})

    def settle(self, directory: pathlib.Path) -> None:
        """Puts all files to their own places, where other programs look for them."""
        moved = {path for path, one in self._last.files.items() if one.key != path}
        if moved:
            self._require_own()
            self._put(directory, {path: path for path in moved})
            self._describe(
                {path: dataclasses.replace(one, key=path) for path, one in self._last.files.items()}
            )
            self._remove({f"{_OTHER}/{path}" for path in moved})

    def _require_own(self) -> None:
        there = self.read()
        if there.number and there.writer != self._writer and there != self._last:
            raise errors.CheckpointError(
                f"{self.url}: another process writes this run, too. Let one of them end, or give "
                "them directories of their own."
            )

    def _put(self, directory: pathlib.Path, keys: Mapping[str, str]) -> None:
        def put(path: str) -> None:
            target = self._path(keys[path])
            self.calls.make_parent(target)
            self.calls.system.put_file(str(directory / path), target)
            self.calls.system.invalidate_cache()
            size = (directory / path).stat().st_size
            if self.calls.system.size(target) != size:
                raise TimeoutError(f"{keys[path]} was not written whole")

        sizes = {path: (directory / path).stat().st_size for path in keys}
        self.calls.for_each(keys, put, f"{self.url}: writing", sizes)

    def _describe(self, files: Mapping[str, StoredFile]) -> None:
        """Writes the description of a generation, which makes it the last one."""
        generation = Generation(self._last.number + 1, self._writer, dict(files))
        content = json.dumps({"format": _FORMAT, **dataclasses.asdict(generation)}, indent=1)
        path = self._path(FILE_NAME)
        self._call(lambda: self.calls.system.pipe_file(path, content.encode()), "writing")
        self._last = generation

    def _remove(self, keys: Collection[str]) -> None:
        def remove(key: str) -> None:
            try:
                self.calls.system.rm_file(self._path(key))
            except FileNotFoundError:
                return

        self.calls.for_each(keys, remove, f"{self.url}: deleting")

    def _read_description(self) -> bytes | None:
        try:
            return bytes(self.calls.system.cat_file(self._path(FILE_NAME)))
        except FileNotFoundError:
            return None

    def _list(self) -> dict[str, int]:
        return {
            path: int(info.get("size") or 0)
            for path, info in self.calls.find(self.calls.root).items()
            if not path.startswith(_OTHER)
        }

    def _path(self, key: str) -> str:
        return f"{self.calls.root}/{key}"

    def _hash(self, path: pathlib.Path) -> str:
        facts = path.stat()
        key = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if key not in self._hashes or not _NEVER_CHANGED.search(path.name):
            with path.open("rb") as file:
                self._hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashes[key]

    def _call(self, function: Callable[[], Any], doing: str) -> Any:
        return self.calls.call(function, f"{self.url}: {doing}")


def _parse(content: bytes) -> Generation:
    plain = json.loads(content)
    if plain["format"] != _FORMAT:
        raise ValueError(f"it is of version {plain['format']}, expected {_FORMAT}")
    files = {path: StoredFile(**one) for path, one in plain["files"].items()}
    outside = [path for path, one in files.items() if not remote_systems.is_inside(path, one.key)]
    if outside:
        raise ValueError(f"{outside[0]!r} leads out of it")
    return Generation(plain["number"], plain["writer"], files)


def list_paths(directory: pathlib.Path) -> list[str]:
    """Returns the paths of the files of a run, without those that are being written."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = pathlib.Path(folder, name).relative_to(directory).as_posix()
            if not _LEFT_OUT.search(path) and path != FILE_NAME:
                found.append(path)
    return sorted(found)


def read_states(directory: pathlib.Path) -> dict[str, bytes]:
    """Returns the files that name the newest checkpoints, by their paths."""
    found = {}
    for path in list_paths(directory):
        if path.rpartition("/")[2] == _STATE:
            try:
                found[path] = (directory / path).read_bytes()
            except FileNotFoundError:
                continue
    return found


def take_snapshot(directory: pathlib.Path, target: pathlib.Path) -> dict[str, bytes] | None:
    """Copies a run that is being written, as a process that is killed now would leave it.

    Nothing is missing of the checkpoints that are named: if other ones are named meanwhile, it is
    done again. Weights are linked, as they never change.

    Returns:
        What `read_states` gives for it, or None if it changed again and again.
    """
    for _ in range(_ATTEMPTS):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        before = read_states(directory)
        try:
            for path in list_paths(directory):
                copied = target / path
                copied.parent.mkdir(parents=True, exist_ok=True)
                if _NEVER_CHANGED.search(path):
                    os.link(directory / path, copied)
                else:
                    shutil.copyfile(directory / path, copied)
        except FileNotFoundError:  # An older checkpoint has gone.
            continue
        if read_states(directory) == before:
            return before
    return None
