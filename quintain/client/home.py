"""The home directory of the platform, and how commands find the master that runs for it."""

import dataclasses
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.client import master_file, master_lock

HOME_VARIABLE: Final = "QUINTAIN_HOME"
"""Environment variable with the home directory."""

DEFAULT_HOME: Final = "~/.quintain"


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
    def server_file(self) -> pathlib.Path:
        """Port and token, which masters of this home hand on."""
        return self.path / "server.json"

    @property
    def resume_file(self) -> pathlib.Path:
        """Experiments that a master paused because it ended, for the next one to go on with."""
        return self.path / "resume.json"

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


def find_master(home: Home) -> master_file.MasterFile | None:
    """Returns where the master of a home directory is, or None if none runs.

    What a killed master left behind, or a damaged file, counts as none.

    Raises:
        MasterUnreachableError: If it runs on another machine or in another container.
    """
    found = master_file.read(home.path)
    if found is not None and found.is_alive():
        return found
    holder = master_lock.find_elsewhere(home.path)
    if holder is not None:
        raise errors.MasterUnreachableError(
            f"The master of {home.path} runs elsewhere ({master_lock.describe(holder)}), and can "
            "be asked there only. Use it there, end it, or give this machine or container a home "
            f"directory of its own ({HOME_VARIABLE})."
        )
    return None


def remove_master(home: Home, pid: int) -> None:
    """Removes the file that says where the master is, if it is process `pid`."""
    found = master_file.read(home.path)
    if found is not None and found.pid == pid:
        (home.path / master_file.FILE_NAME).unlink(missing_ok=True)


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
