"""Checkpoint storage in an object store, or in any file system of fsspec.

<url>/<uuid>/metadata.json     the manifest, which is written last
             ...               what the trial writes
<url>/.<launch>.tmp/<uuid>     says that a process writes a checkpoint now, and for which home

An upload that is torn has no manifest, and is no checkpoint. The note of the process that made it
stays, by which the master finds and deletes the rest.
"""

import contextlib
import dataclasses
import datetime
import json
import logging
import pathlib
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, TypeVar, cast

from typing_extensions import override

from quintain import errors
from quintain.files import disk_errors
from quintain.records import checkpoint_manifest
from quintain.storage import checkpoint_storage, remote_calls, remote_systems

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CHECK_SECS: Final = 4.0
_DISCARD_SECS: Final = 10.0


class FsspecStorage(checkpoint_storage.CheckpointStorage):
    """Keeps each checkpoint below a name of its own. All methods may be called from threads.

    Args:
        url: Where they lie, as `s3://bucket/prefix`.
        options: What fsspec's file system is made with; no secrets.
        writer: Who writes there.
        scratch: Local directory for files on their way; None for one of temporary files.
        patience_secs: How long calls that fail are repeated.
        answer_secs: How long one may take; see `remote_calls.RemoteCalls`.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        writer: checkpoint_storage.Writer = checkpoint_storage.Writer(),  # noqa: B008 - frozen
        *,
        scratch: pathlib.Path | None = None,
        patience_secs: float = 20.0,
        answer_secs: float = remote_calls.ANSWER_SECS,
    ) -> None:
        self._url = remote_systems.trim(url)
        self._options = dict(options)
        self._writer = writer
        self._scratch = scratch
        self._calls = remote_calls.RemoteCalls(
            self._url,
            self._options,
            patience_secs=patience_secs,
            answer_secs=answer_secs,
            # A trial has trained; a user, or the master, is told at once.
            outlasts_refusals=bool(writer.launch_id),
        )

    @property
    @override
    def place(self) -> str:
        return self._url

    @property
    @override
    def address(self) -> str:
        return json.dumps({"url": self._url, "options": self._options}, sort_keys=True)

    @override
    def check(self) -> None:
        remote_systems.check(self._url, self._options, patience_secs=_CHECK_SECS)

    # Writing.

    @property
    @override
    def is_remote(self) -> bool:
        return True

    @property
    @override
    def upload_request(self) -> Mapping[str, Any]:
        return {
            "url": self._url,
            "options": self._options,
            "writer": dataclasses.asdict(self._writer),
            "patience_secs": self._calls.patience_secs,
            "answer_secs": self._calls.answer_secs,
        }

    @override
    def stage(self, name: str) -> pathlib.Path:
        try:
            scratch = self._scratch or pathlib.Path(tempfile.mkdtemp(prefix="quintain-"))
            directory = scratch / self._note_directory(name)
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        except OSError as error:
            kind = errors.NoRoomError if disk_errors.is_full(error) else errors.CheckpointError
            raise kind(f"a checkpoint could not be written: {error}.") from error
        return directory

    def _upload(self, directory: pathlib.Path, name: str) -> None:
        note = {"home_id": self._writer.home_id, "experiment_id": self._writer.experiment_id}
        self._write(self._note_directory(name), name, json.dumps(note).encode())
        found = checkpoint_manifest.list_files(directory)
        found.pop(checkpoint_manifest.FILE_NAME, None)

        def put(path: str) -> None:
            target = self._path(name, path)
            self._calls.make_parent(target)
            self._system.put_file(str(directory / path), target)

        sizes = {path: size for path, size in found.items() if not path.endswith("/")}
        self._calls.for_each(sizes, put, f"{self.locate(name)}: writing", sizes)

    @override
    def commit(self, directory: pathlib.Path, name: str) -> None:
        try:
            self._upload(directory, name)
            self._complete(directory, name)
        except OSError as error:
            self.discard(directory, name)
            raise errors.CheckpointError(f"{directory}: can't be read: {error}.") from error
        except errors.CheckpointError:
            self.discard(directory, name)
            raise
        shutil.rmtree(directory, ignore_errors=True)
        self._remove_note(name)

    def _complete(self, directory: pathlib.Path, name: str) -> None:
        """Writes the manifest, if all files are there."""
        content = (directory / checkpoint_manifest.FILE_NAME).read_bytes()
        manifest = checkpoint_manifest.parse(content, str(directory))
        wrong = checkpoint_manifest.find_wrong_size(self.find_files(name), manifest.sizes)
        if wrong is not None:
            raise errors.CheckpointError(
                f"{self.locate(name)}: a checkpoint could not be written: {wrong}."
            )
        self._write(name, checkpoint_manifest.FILE_NAME, content)

    @override
    def discard(self, directory: pathlib.Path, name: str) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        impatient = FsspecStorage(
            self._url,
            self._options,
            self._writer,
            patience_secs=0.0,
            answer_secs=min(self._calls.answer_secs, _DISCARD_SECS),
        )
        try:
            impatient.delete(name)
        except errors.CheckpointError as error:
            # Its note stays as well, and the master deletes both after this process.
            logger.warning("What was uploaded stays for now: %s", error)
        else:
            impatient._remove_note(name)

    def _remove_note(self, name: str) -> None:
        try:
            self._remove(self._path(self._note_directory(name), name))
        except errors.CheckpointError as error:
            logger.warning("A note of a checkpoint that is complete stays for now: %s", error)

    def _note_directory(self, name: str) -> str:
        """Returns where it is noted that a checkpoint is being written."""
        return checkpoint_manifest.unfinished_name(self._writer.launch_id or name)

    def _write(self, name: str, path: str, content: bytes) -> None:
        target = self._path(name, path)

        def write() -> None:
            self._calls.make_parent(target)
            self._system.pipe_file(target, content)

        self._calls.call(write, f"{self.locate(name)}/{path}: writing")

    # Reading.

    @override
    def fetch(
        self, name: str, directory: pathlib.Path, sizes: Mapping[str, int] | None = None
    ) -> pathlib.Path:
        where = self.locate(name)
        found = self.find_files(name)
        if checkpoint_manifest.FILE_NAME not in found:
            raise self.build_damaged(name, f"{checkpoint_manifest.FILE_NAME} is not there")
        try:
            manifest = self.read_manifest(name)
        except errors.CheckpointError as error:
            if isinstance(error.__cause__, ValueError | TypeError):
                raise self.build_damaged(
                    name, f"{checkpoint_manifest.FILE_NAME} can't be read"
                ) from error
            raise
        expected = {**manifest.sizes, **(sizes or {})}
        wrong = checkpoint_manifest.find_wrong_size(found, expected)
        outside = next((path for path in expected if not remote_systems.is_inside(path)), None)
        if wrong is not None or outside is not None:
            raise self.build_damaged(name, wrong or f"{outside} leads out of it")
        try:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            for path in expected:
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                if path.endswith("/"):
                    (directory / path).mkdir(exist_ok=True)
        except OSError as error:
            raise errors.CheckpointError(f"{where}: can't be copied: {error}.") from error
        files = {path: size for path, size in expected.items() if not path.endswith("/")}
        self._download(name, directory, {**files, checkpoint_manifest.FILE_NAME: 0})
        damage = checkpoint_manifest.find_damage(directory, expected)
        if damage is not None:
            # It may have been damaged on its way.
            self._download(name, directory, files)
            damage = checkpoint_manifest.find_damage(directory, expected)
        if damage is not None:
            shutil.rmtree(directory, ignore_errors=True)
            raise self.build_damaged(name, damage)
        return directory

    def _download(self, name: str, directory: pathlib.Path, sizes: Mapping[str, int]) -> None:
        def get(path: str) -> None:
            self._system.get_file(self._path(name, path), str(directory / path))

        self._calls.for_each(sizes, get, f"{self.locate(name)}: reading", sizes)

    @override
    def read(self, name: str, path: str) -> bytes:
        where = self._path(name, path)
        doing = f"{self.locate(name)}/{path}: reading"
        return cast(
            "bytes", self._calls.call(lambda: self._system.cat_file(where), doing, is_file=True)
        )

    @override
    def open(self, name: str, path: str) -> BinaryIO:
        if not remote_systems.is_inside(path) or path not in self.list_files(name):
            raise errors.NotFoundError(f"file {path[:200]!r}: there is none of this name.")
        where = self._path(name, path)
        doing = f"{self.locate(name)}/{path}: reading"
        return cast("BinaryIO", self._calls.call(lambda: self._system.open(where, "rb"), doing))

    @override
    def list(self) -> list[checkpoint_storage.StoredEntry]:
        entries: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
        for path, info in self._find("").items():
            name, _, rest = path.partition("/")
            if rest:
                entries.setdefault(name, []).append((rest, info))
        return [
            checkpoint_storage.StoredEntry(
                name,
                sum(int(info.get("size") or 0) for _, info in files),
                max(_find_time(info) for _, info in files),
                any(path == checkpoint_manifest.FILE_NAME for path, _ in files),
            )
            for name, files in sorted(entries.items())
        ]

    @override
    def find_files(self, name: str) -> dict[str, int]:
        found = self._find(name)
        return {path: int(info.get("size") or 0) for path, info in sorted(found.items())}

    def _find(self, name: str) -> dict[str, Mapping[str, Any]]:
        """Returns what fsspec knows of all files below a name, by their paths there."""
        root = self._path(name) if name else self._calls.root
        return self._calls.call(lambda: self._calls.find(root), f"{self.locate(name)}: listing")

    # Deleting.

    @override
    def delete(self, name: str) -> None:
        files = self._find(name)
        rest = [path for path in files if path != checkpoint_manifest.FILE_NAME]
        doing = f"{self.locate(name)}: deleting"
        self._calls.for_each(rest, lambda path: self._rm_file(self._path(name, path)), doing)
        if checkpoint_manifest.FILE_NAME in files:
            self._remove(self._path(name, checkpoint_manifest.FILE_NAME))
        if not remote_systems.is_object_store(self._url):
            self._calls.call(lambda: self._rm_directory(name), doing)

    @override
    def may_have(self, name: str) -> bool:
        return True

    @override
    def delete_unfinished(self, directory_name: str, home_id: str) -> None:
        for name in self._find(directory_name):
            note = self.read_note(directory_name, name)
            if note.get("home_id") != home_id or "/" in name:
                continue
            if checkpoint_manifest.FILE_NAME not in self.find_files(name):
                self.delete(name)
            self._remove(self._path(directory_name, name))

    @override
    def find_writer(self, name: str) -> str | None:
        notes = (self.read_note(name, path) for path in self._find(name) if "/" not in path)
        return next((str(note["home_id"]) for note in notes if "home_id" in note), None)

    def read_note(self, directory_name: str, name: str) -> dict[str, Any]:
        """Returns what a process noted of a checkpoint that it began; nothing if it did not."""
        try:
            found = json.loads(self.read(directory_name, name))
        except (errors.NotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _remove(self, path: str) -> None:
        where = self._url + path.removeprefix(self._calls.root)
        self._calls.call(lambda: self._rm_file(path), f"{where}: deleting")

    def _rm_file(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(path)

    def _rm_directory(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm(self._path(name), recursive=True)

    # How it is done.

    @property
    def _system(self) -> Any:
        return self._calls.system

    def _path(self, *names: str) -> str:
        return "/".join([self._calls.root, *names])


def _find_time(info: Mapping[str, Any]) -> float:
    """Returns when a file was changed, in seconds since the epoch; 0 if that is not known."""
    for key in ("LastModified", "last_modified", "mtime", "updated", "modified", "created"):
        value = info.get(key)
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, datetime.datetime):
            return value.timestamp()
    return 0.0
