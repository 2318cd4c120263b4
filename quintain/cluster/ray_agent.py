"""The agent of a node of Ray: an actor that runs the same loop as `quintain agent`.

The actor is detached: it outlives the master and what started it. Ray starts it again when it is
killed; it then finds where the master is in its directory, and adopts the processes that are there.
If Ray's own process of the node is killed, the actor outlives that too, but Ray has given up the
node: the agent drains, so that its trials save themselves and go on elsewhere.
"""

import json
import logging
import os
import pathlib
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

import quintain
from quintain import durable_files, errors
from quintain.client import address as address_lib
from quintain.cluster import ray_environment, ray_messages
from quintain.scheduler import slots as slots_lib

logger = logging.getLogger(__name__)

_ADDRESS_FILE: Final = "master.json"
_LOOK_SECS: Final = 1.0
_LOOKS_PER_QUESTION: Final = 2


class RayAgent:
    """An actor; the methods are called by `ray_watcher`.

    Args:
        settings: `ray_messages.Settings` as plain data.
        name: Name of the node.
    """

    def __init__(self, settings: Mapping[str, Any], name: str) -> None:
        self._settings = ray_messages.Settings(**settings)
        _check_version(self._settings)
        self._name = name
        self._raylet = os.getppid()
        self._slots = _find_slots(self._settings)
        self._labels = _find_labels()
        ray_environment.clean(os.environ, ray_environment.read_raylet(self._raylet))
        self._directory = _make_directory(self._settings, name)
        self._address: address_lib.Address | None = None
        self._agent: Any = None
        self._thread: threading.Thread | None = None
        self._problem = ""
        threading.Thread(target=self._watch, daemon=True, name="quintain-watch").start()
        if (found := _read_address(self._directory)) is not None:
            self._begin(found)

    def join(self, address: Mapping[str, str]) -> dict[str, str]:
        """Makes sure that the agent runs, and calls the master at this address.

        Returns:
            `problem`: why it does not run; empty if it does.
        """
        found = address_lib.Address(**address)
        if found != self._address or self._problem:
            path = self._directory / _ADDRESS_FILE
            durable_files.replace(path, json.dumps(dict(address)), mode=0o600)
            self._end()
            self._begin(found)
        return {"problem": self._problem}

    def leave(self) -> None:
        """Ends the agent; processes that are there go on."""
        (self._directory / _ADDRESS_FILE).unlink(missing_ok=True)
        self._end()

    def _begin(self, address: address_lib.Address) -> None:
        self._address, self._problem = address, ""

    def _end(self) -> None:
        pass

    def _watch(self) -> None:
        pass


def _check_version(settings: ray_messages.Settings) -> None:
    if settings.version != quintain.__version__:
        raise errors.ClusterError(
            f"Quintain {quintain.__version__} is installed there, in {sys.prefix}; the master is "
            f"of version {settings.version}. Install the same version."
        )


def _find_slots(settings: ray_messages.Settings) -> list[slots_lib.Slot]:
    return []


def _find_labels() -> dict[str, str]:
    return {}


def _make_directory(settings: ray_messages.Settings, name: str) -> pathlib.Path:
    base = pathlib.Path(settings.directory or "~/.cache/quintain").expanduser()
    directory = base / "agents" / settings.home_id / name
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory


def _read_address(directory: pathlib.Path) -> address_lib.Address | None:
    try:
        return address_lib.Address(**durable_files.read_json(directory / _ADDRESS_FILE))
    except (OSError, errors.DamagedFileError, TypeError):
        return None
