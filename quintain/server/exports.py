"""Models of checkpoints that the page exports: `quintain checkpoint export`, kept in the home."""

import pathlib
import subprocess
import tempfile
import threading

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.server.security import own_commands


class Exports:
    """Exports models for the page, one at a time.

    Args:
        home: The home directory. Each export has the directory `exports/UUID` in it, which stays
            until somebody deletes it.
    """

    def __init__(self, home: home_lib.Home) -> None:
        self._home = home
        self._root = home.path / "exports"
        self._lock = threading.Lock()

    def export(self, uuid: str) -> pathlib.Path:
        """Exports the models of a checkpoint, unless that was done, and returns their directory.

        Raises:
            ConfigError: If there is nothing in it to export; the message is the command's.
            ClusterError: If the command fails.
        """
        with self._lock:
            target = self._root / uuid
            if not target.is_dir():
                self._root.mkdir(exist_ok=True)
                with tempfile.TemporaryDirectory(prefix=".export-", dir=self._root) as scratch:
                    made = pathlib.Path(scratch, uuid)
                    self._run(uuid, made)
                    made.rename(target)
            return target

    def find(self, uuid: str) -> pathlib.Path:
        """Returns the directory of an export.

        Raises:
            NotFoundError: If there is none.
        """
        target = self._root / uuid
        if not target.is_dir():
            raise errors.NotFoundError(f"checkpoint {uuid}: it was not exported yet.")
        return target

    def _run(self, uuid: str, target: pathlib.Path) -> None:
        with tempfile.TemporaryFile() as problems:
            done = subprocess.run(
                own_commands.build("checkpoint", "export", uuid, f"--output={target}"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=problems,
                env=own_commands.build_environment(self._home),
                check=False,
            )
            if done.returncode or not target.is_dir():
                doing = f"checkpoint {uuid} could not be exported"
                raise own_commands.explain(problems, done.returncode, doing)
