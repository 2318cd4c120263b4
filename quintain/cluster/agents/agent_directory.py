"""Directory of an agent, by which the next agent goes on after this one is killed.

| path | content |
|---|---|
| `agent/agent.json` | what the directory is recognised by |
| `agent/agent.lock` | held by the agent that runs |
| `agent/launches/*.json` | a launch that the master was not told to forget |
| `scratch/LAUNCH/` | files of one process: its log, its exit, and what it needs itself |

Beside them are the caches of trials (`QUINTAIN_CACHE`).
"""

import contextlib
import dataclasses
import fcntl
import logging
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.files import disk_errors
from quintain.master.processes import process_files
from quintain.records.rows import trial

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class LaunchRecord:
    """Record of a launch. Its environment, with the token, is not kept."""

    launch_id: str
    """Name of the launch."""

    trial_id: int
    """The trial."""

    identity: trial.ProcessIdentity | None = None
    """The process; None until it is known."""

    reason: str = ""
    """Why it could not be started, or is lost; empty otherwise."""

    devices: tuple[str, ...] = ()
    """GPUs that it holds."""


class AgentDirectory:
    """The directory of one agent."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._own = path / "agent"
        self._launches = self._own / "launches"

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Makes the directory, for this user only, and keeps other agents from it.

        Raises:
            ConfigError: If it can't be used.
            StateError: If another agent uses it.
        """
        with contextlib.ExitStack() as stack:
            try:
                for directory in (self.path, self._own, self._launches, self.path / "scratch"):
                    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                file = stack.enter_context(open(self._own / "agent.lock", "a", encoding="utf-8"))
            except OSError as error:
                raise errors.ConfigError(
                    f"--cache: {str(self.path)!r} can't be used ({error}). Name a directory of "
                    "this machine that you may write to."
                ) from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise errors.StateError(
                    f"Another agent runs in {self.path}. End that one, or give this one a name "
                    "(--name) and a directory (--cache) of its own."
                ) from error
            yield

    def find_id(self) -> str:
        """Returns what the directory is recognised by; it is made the first time."""
        path = self._own / "agent.json"
        content = home_lib.read_own(path)
        found = content.get("agent_id") if isinstance(content, dict) else None
        if not isinstance(found, str) or not found:
            found = uuid.uuid4().hex
            home_lib.write_private(path, {"agent_id": found})
        return found

    def scratch_dir(self, launch_id: str) -> pathlib.Path:
        """Returns the directory for the files of a process."""
        return self.path / "scratch" / launch_id

    def save(self, record: LaunchRecord) -> None:
        """Notes a launch, at once."""
        home_lib.write_private(self._record_path(record.launch_id), dataclasses.asdict(record))

    def list_records(self) -> list[LaunchRecord]:
        """Returns the launches that were noted. The log names what can't be read."""
        found = []
        for path in sorted(self._launches.glob("*.json")):
            try:
                content = disk_errors.read_json(path)
                identity = content["identity"]
                found.append(
                    LaunchRecord(
                        launch_id=path.stem,
                        trial_id=int(content["trial_id"]),
                        identity=None if identity is None else trial.ProcessIdentity(**identity),
                        reason=str(content["reason"]),
                        devices=tuple(content["devices"]),
                    )
                )
            except (OSError, ValueError, TypeError, KeyError, errors.DamagedFileError) as error:
                logger.warning(
                    "%s can't be read; its process is lost, and %d bytes of its log that were not "
                    "stored: %s",
                    path,
                    self.count_unread(path.stem),
                    error,
                )
                self.delete(path.stem)
        return found

    def count_unread(self, launch_id: str) -> int:
        """Returns how many bytes of the log of a process are not known to be stored."""
        files = process_files.ProcessFiles(str(self.scratch_dir(launch_id)), launch_id)
        return files.count_unread(files.read_offset())

    def delete(self, launch_id: str) -> None:
        """Forgets a launch, and deletes the files of its process."""
        shutil.rmtree(self.scratch_dir(launch_id), ignore_errors=True)
        self._record_path(launch_id).unlink(missing_ok=True)

    def _record_path(self, launch_id: str) -> pathlib.Path:
        return self._launches / f"{launch_id}.json"


def find_default(name: str) -> pathlib.Path:
    """Returns the directory of an agent that was given none."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(root).expanduser().absolute() / "quintain" / "agents" / name
