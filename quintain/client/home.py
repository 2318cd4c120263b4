"""The home directory of the platform, and how commands find the master that runs for it."""

import dataclasses
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.records import process_identity, trial

HOME_VARIABLE: Final = "QUINTAIN_HOME"
"""Environment variable with the home directory."""

DEFAULT_HOME: Final = "~/.quintain"


@dataclasses.dataclass(frozen=True)
class MasterAddress:
    """How to talk to a master, and which process it is."""

    url: str
    """Its root, such as `http://127.0.0.1:40123`."""

    token: str
    """What requests have to carry."""

    pid: int
    """Number of its process."""

    start_time: float
    """When the process was started, in seconds since the epoch, as the operating system has it."""

    is_embedded: bool = False
    """Whether it lives in a command that follows its own experiment."""


@dataclasses.dataclass(frozen=True)
class Home:
    """Paths below the home directory."""

    path: pathlib.Path
    """The directory."""

    @property
    def database(self) -> pathlib.Path:
        """The store."""
        return self.path / "quintain.db"

    @property
    def checkpoints(self) -> pathlib.Path:
        """Where checkpoints are kept, unless an experiment says otherwise."""
        return self.path / "checkpoints"

    @property
    def experiments(self) -> pathlib.Path:
        """Copies of users' code."""
        return self.path / "experiments"

    @property
    def logs(self) -> pathlib.Path:
        """Logs of masters that run in the background."""
        return self.path / "logs"

    @property
    def master_file(self) -> pathlib.Path:
        """Where the running master writes its address."""
        return self.path / "master.json"

    @property
    def server_file(self) -> pathlib.Path:
        """Port and token, which masters of this home hand on."""
        return self.path / "server.json"

    @property
    def lock_file(self) -> pathlib.Path:
        """Locked by the running master."""
        return self.path / "master.lock"

    def create(self) -> None:
        """Makes the directory, readable by its owner only.

        Raises:
            ConfigError: If it can't be made or written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for directory in (self.checkpoints, self.experiments, self.logs):
                directory.mkdir(exist_ok=True)
        except OSError as error:
            raise errors.ConfigError(
                f"{HOME_VARIABLE}: got {str(self.path)!r}, which can't be used ({error}); expected "
                "a directory that can be written to."
            ) from error


def find_home(path: str | None = None) -> Home:
    """Returns the home directory: the given one, `QUINTAIN_HOME`, or `~/.quintain`.

    Args:
        path: The directory, if it was given.
    """
    chosen = path or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME
    return Home(pathlib.Path(chosen).expanduser().absolute())


def read_master(home: Home) -> MasterAddress | None:
    """Returns the address of the master that runs for a home directory, or None.

    A file that a killed master left behind, or one that is damaged, counts as none.
    """
    try:
        content: Any = json.loads(home.master_file.read_text(encoding="utf-8"))
        address = MasterAddress(**content)
    except (OSError, ValueError, TypeError):
        return None
    identity = trial.ProcessIdentity(address.pid, address.start_time, launch_id="")
    return address if process_identity.is_alive(identity) else None


def write_master(home: Home, address: MasterAddress) -> None:
    """Writes the address of a master."""
    write_private(home.master_file, dataclasses.asdict(address))


def write_private(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file that is there as a whole or not at all, readable by its owner only."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def remove_master(home: Home, pid: int) -> None:
    """Removes the address of a master, if it is that of process `pid`."""
    try:
        content: Any = json.loads(home.master_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if isinstance(content, dict) and content.get("pid") == pid:
        home.master_file.unlink(missing_ok=True)
