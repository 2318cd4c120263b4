"""A master as users start it, which may be killed and started anew."""

import os
import pathlib
import subprocess
import sys
import time
from typing import Self

import page

from quintain.client.home import master_file


class Master:
    """The master of a home directory, without slots of its own.

    Args:
        home: The home directory.

    Attributes:
        url: Its address, which stays the same.
        pid: Its process.
    """

    def __init__(self, home: pathlib.Path) -> None:
        self._home = home
        self._port = page.find_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.pid = 0

    def __enter__(self) -> Self:
        """Starts it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kills it."""
        self.kill()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        command = ["master", "start", "--slots=0", f"--port={self._port}", "--new_database"]
        with (self._home / "master.out").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "quintain.cli.main", *command],
                env={**os.environ, "QUINTAIN_HOME": str(self._home)},
                stdout=output,
                stderr=output,
            )
        self.pid = self._process.pid
        while (found := master_file.read(self._home)) is None or found.pid != self.pid:
            if self._process.poll() is not None:
                raise SystemExit((self._home / "master.out").read_text())
            time.sleep(0.05)

    def kill(self) -> None:
        """Kills it: it can't save, or tell anybody, anything."""
        self._process.kill()
        self._process.wait()
