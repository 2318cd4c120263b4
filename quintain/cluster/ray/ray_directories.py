"""Directories of agents on nodes of Ray, and their deletion when nodes are gone.

A node that comes back has another number, and its agent another directory: on machines that come
and go, one of each life would stay. Deleted is only what says itself that it is of the same home
and the same machine, of a node that Ray does not know as alive, and that nobody holds or works in.
"""

import contextlib
import json
import logging
import pathlib
import shutil
import socket
from collections.abc import Collection
from typing import Any, Final

from quintain import errors
from quintain.cluster.agents import agent_directory
from quintain.files import atomic_write, disk_errors
from quintain.records import process_identity

logger = logging.getLogger(__name__)

_FILE_NAME: Final = "ray_node.json"


def find(directory: str, home_id: str, name: str) -> pathlib.Path:
    """Returns the directory of an agent.

    Args:
        directory: The one that was given for all of them; empty for the default.
        home_id: Name of the master's home.
        name: Name of the node.
    """
    if not directory:
        return agent_directory.find_default(f"{home_id}-{name}")
    return pathlib.Path(directory).expanduser() / home_id / name


def mark(directory: agent_directory.AgentDirectory, home_id: str, node_id: str) -> None:
    """Notes in a directory that is held whose it is."""
    content = {"home_id": home_id, "node_id": node_id, "machine": socket.gethostname()}
    content["place"] = process_identity.find_place()
    path = directory.path / "agent" / _FILE_NAME
    atomic_write.write_atomically(path, json.dumps(content), mode=0o600)


def delete_gone(
    own: agent_directory.AgentDirectory, home_id: str, alive: Collection[str]
) -> list[pathlib.Path]:
    """Deletes the directories beside an agent's own whose nodes are surely gone.

    Args:
        own: The agent's own directory, which stays.
        home_id: Name of the master's home.
        alive: The nodes that Ray knows as alive, by their numbers.

    Returns:
        The directories that were deleted.
    """
    deleted = []
    with contextlib.suppress(OSError):
        for path in sorted(own.path.parent.iterdir()):
            other = agent_directory.AgentDirectory(path)
            if path == own.path or path.is_symlink() or not _is_gone(path, home_id, alive):
                continue
            # Whoever holds it uses it, whatever Ray says.
            with contextlib.suppress(errors.StateError, errors.ConfigError), other.hold():
                records = other.list_records()
                if any(
                    each.identity is not None and process_identity.is_alive(each.identity)
                    for each in records
                ):
                    continue
                logger.info(
                    "%s is deleted: its node of Ray is gone. %d bytes of logs were not stored.",
                    path,
                    sum(other.count_unread(each.launch_id) for each in records),
                )
                shutil.rmtree(path, ignore_errors=True)
                deleted.append(path)
    return deleted


def _is_gone(path: pathlib.Path, home_id: str, alive: Collection[str]) -> bool:
    found: Any = None
    with contextlib.suppress(OSError, errors.DamagedFileError):
        found = disk_errors.read_json(path / "agent" / _FILE_NAME)
    if not isinstance(found, dict):
        return False
    node_id = found.get("node_id")
    is_own = (found.get("home_id"), found.get("machine")) == (home_id, socket.gethostname())
    if not is_own or not isinstance(node_id, str) or node_id in alive:
        return False
    # Processes of another container can't be seen from here; those of before a restart have ended.
    place, here = str(found.get("place")), process_identity.find_place()
    return place == here or place.split()[:1] != here.split()[:1]
