"""Ray actor that runs the agent of a node, with the same loop as `quintain agent`.

The actor is detached: it outlives the master and the process that started it. Ray starts it again
when it is killed; it then finds where the master is in its directory, and adopts the processes that
are there. If Ray's own process of the node is killed, the actor outlives that, too, but Ray has
given up the node: the agent drains, so that its trials save themselves and go on elsewhere. It does
the same when Ray is about to remove the node.
"""

import contextlib
import importlib
import json
import logging
import os
import pathlib
import sys
import threading
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import quintain
from quintain import errors
from quintain.client import address as address_lib
from quintain.client.home import home_database
from quintain.client.http import connection as connection_lib
from quintain.cluster.agents import agent_client, agent_directory, node_agent
from quintain.cluster.ray import ray_directories, ray_messages
from quintain.files import atomic_write, disk_errors
from quintain.master.placing import slots as slots_lib
from quintain.master.processes import process_launcher

_PREFIXES: Final = ("RAY_", "SPT_", "QUINTAIN_")

_ADDED: Final = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "CUDA_VISIBLE_DEVICES")
"""Variables that Ray may set in its workers, and that other programs use, too."""


logger = logging.getLogger(__name__)

_ADDRESS_FILE: Final = "ray_master.json"
_LOOK_SECS: Final = 1.0
_IDLE_PATIENCE_SECS: Final = 60.0
"""An agent without processes whose master is away for longer gives back what it holds. The next
master starts another one."""

_DELETION_SECS: Final = 60.0
"""How often it is looked for directories of nodes that are gone, of which Ray hears later."""

_NODE_ID_LABEL: Final = "ray.io/node-id"
_GPU_TYPE_LABEL: Final = "ray.io/accelerator-type"


class RayAgent:
    """An actor; its methods are called by `ray_watcher`, one after the other.

    Args:
        settings: `ray_messages.Settings` as plain data.
        home_id: Name of the master's home.
        name: Name of the node.

    Raises:
        ClusterError: If another version of this package is installed here.
    """

    def __init__(self, settings: Mapping[str, Any], home_id: str, name: str) -> None:
        self._settings = ray_messages.Settings(**settings)
        _check_version(self._settings)
        self._ray = importlib.import_module("ray")
        self._agent_settings = self._find_settings(name)
        self._raylet = os.getppid()
        clean_environment(os.environ, read_environment(self._raylet))
        self._directory = agent_directory.AgentDirectory(
            ray_directories.find(self._settings.directory, home_id, name)
        )
        self._address: address_lib.Address | None = None
        self._agent: node_agent.NodeAgent | None = None
        self._thread: threading.Thread | None = None
        self._problem = self._drain_reason = ""
        # It is held until the process ends, so that there never are two agents of a node.
        self._hold = contextlib.ExitStack()
        self._hold.enter_context(self._directory.hold())
        self._home_id, self._node_id = home_id, self._ray.get_runtime_context().get_node_id()
        ray_directories.mark(self._directory, home_id, self._node_id)
        for target in (self._watch, self._delete_gone):
            threading.Thread(target=target, name="quintain-watch", daemon=True).start()
        if (found := self._read_address()) is not None:
            self._begin(found)

    def join(self, settings: Mapping[str, Any], address: Mapping[str, str]) -> dict[str, Any]:
        """Makes sure that the agent runs and calls the master at this address.

        Returns:
            `problem`: why it does not run, empty if it does; `is_stale`: whether it is of other
            settings, so that another one has to take its place.
        """
        if ray_messages.Settings(**settings) != self._settings:
            self._end()
            return {"problem": "It is of other settings.", "is_stale": True}
        found = address_lib.Address(**address)
        if found != self._address or (self._problem and not self._drain_reason):
            self._end()
            path = self._directory.path / _ADDRESS_FILE
            atomic_write.write_atomically(path, json.dumps(dict(address)), mode=0o600)
            self._begin(found)
        return {"problem": self._problem, "is_stale": False}

    def leave(self) -> None:
        """Ends the agent; processes that are there go on."""
        self._end()
        (self._directory.path / _ADDRESS_FILE).unlink(missing_ok=True)

    def retire(self) -> None:
        """Lets the agent leave its master, which starts nothing here any more; waits for that."""
        if self._agent is not None and self._thread is not None:
            self._agent.drain("It has nothing to do.")
            self._thread.join()
        self.leave()

    def _find_settings(self, name: str) -> node_agent.AgentSettings:
        context = self._ray.get_runtime_context()
        labels = dict(context.get_node_labels())
        labels.pop(_NODE_ID_LABEL, None)
        if _GPU_TYPE_LABEL in labels:
            # What experiments ask for by `resources.gpu`.
            labels.setdefault("gpu", labels[_GPU_TYPE_LABEL])
        slots = slots_lib.find_slots(
            self._settings.slots,
            self._settings.threads_per_slot,
            num_cores=int(context.get_assigned_resources().get("CPU", 0)),
            devices=context.get_accelerator_ids().get("GPU", []),
        )
        return node_agent.AgentSettings(
            name,
            tuple(slots),
            labels,
            idle_patience_secs=_IDLE_PATIENCE_SECS,
            is_told_address=True,
        )

    def _read_address(self) -> address_lib.Address | None:
        try:
            content = disk_errors.read_json(self._directory.path / _ADDRESS_FILE)
            return address_lib.Address(**content)
        except FileNotFoundError:
            return None
        except (OSError, TypeError, errors.DamagedFileError) as error:
            logger.warning("Where the master is can't be read, and is waited for: %s", error)
            return None

    def _begin(self, address: address_lib.Address) -> None:
        self._address, self._problem = address, ""
        launcher = process_launcher.ProcessLauncher(idle_secs=node_agent.FORK_SERVER_SECS)
        launcher.warm_up()
        client = agent_client.AgentClient(
            connection_lib.Connection(address, retries=agent_client.RETRIES),
            self._agent_settings.name,
        )
        self._agent = node_agent.NodeAgent(client, launcher, self._directory, self._agent_settings)
        if self._drain_reason:
            self._agent.drain(self._drain_reason)
        self._thread = threading.Thread(
            target=self._run, args=(self._agent,), name="quintain-agent", daemon=True
        )
        self._thread.start()

    def _end(self) -> None:
        if self._agent is not None and self._thread is not None:
            self._agent.stop()
            self._thread.join()
        self._agent = self._thread = None

    def _run(self, agent: node_agent.NodeAgent) -> None:
        try:
            agent.run()
        except errors.MasterUnreachableError as error:
            logger.warning("The agent ends: %s", error)
            if self._drain_reason == ray_messages.RAY_IS_GONE:
                return  # So does this process.
            # What it holds of the cluster is given back.
            self._ray.kill(self._ray.get_runtime_context().current_actor, no_restart=True)
        except Exception as error:
            logger.exception("The agent has failed.")
            self._problem = f"Its agent has failed: {error}"
        else:
            self._problem = self._drain_reason

    def _watch(self) -> None:
        """Drains when Ray gives up the node; runs in a thread of its own."""
        waiting = threading.Event()
        state = importlib.import_module("ray._private.state").state
        while not waiting.wait(_LOOK_SECS):
            if os.getppid() != self._raylet:
                self._drain(ray_messages.RAY_IS_GONE)
                if self._thread is not None:
                    self._thread.join()
                os._exit(0)
            try:
                draining = state.get_draining_nodes()
            except Exception as error:  # noqa: BLE001 - Ray's errors have no common class.
                logger.debug("Ray does not say which nodes are drained: %s", error)
                continue
            if self._node_id in draining:
                self._drain("Ray is about to remove the node.")

    def _delete_gone(self) -> None:
        """Deletes what agents leave of nodes that are gone; runs in a thread of its own."""
        waiting = threading.Event()
        while not waiting.wait(_DELETION_SECS):
            try:
                nodes = self._ray.nodes()
            except Exception as error:  # noqa: BLE001 - Ray's errors have no common class.
                logger.debug("Ray does not say which nodes are alive: %s", error)
                continue
            alive = {each["NodeID"] for each in nodes if each["Alive"]}
            ray_directories.delete_gone(self._directory, self._home_id, alive | {self._node_id})

    def _drain(self, reason: str) -> None:
        if not self._drain_reason:
            self._drain_reason = reason
            if self._agent is not None:
                self._agent.drain(reason)


def _check_version(settings: ray_messages.Settings) -> None:
    if settings.version != quintain.__version__:
        raise errors.ClusterError(
            f"Quintain {quintain.__version__} is installed there, in {sys.prefix}; the master's "
            f"is {settings.version}. Install the same version on both."
        )


def clean_environment(environment: MutableMapping[str, str], raylet: Mapping[str, str]) -> None:
    """Takes out of an environment what Ray has put into it, and what asks masters.

    Ray gives its workers variables that change how they compute (`OMP_NUM_THREADS`), what
    `breakpoint()` does, and how they reach the cluster, its token among them. A trial is no worker
    of Ray.

    Args:
        environment: Variables of a worker.
        raylet: Variables that Ray's own process of the node was started with.

    Example:
        >>> variables = {"RAY_JOB_ID": "1", "OMP_NUM_THREADS": "1", "HOME": "/home/me"}
        >>> clean_environment(variables, {"HOME": "/home/me"})
        >>> variables
        {'HOME': '/home/me'}
    """
    home_database.hide(environment)
    for name in [*environment]:
        if name.startswith(_PREFIXES):
            del environment[name]
    for name in _ADDED:
        environment.pop(name, None)
        if name in raylet:
            environment[name] = raylet[name]


def read_environment(pid: int) -> dict[str, str]:
    """Returns the variables that a process was started with; none if they can't be read."""
    try:
        content = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(each).partition("=") for each in content.split(b"\0") if each)
    return {name: value for name, _, value in pairs}
