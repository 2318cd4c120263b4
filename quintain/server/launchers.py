"""Choice of a master's launcher: local, agents or Ray."""

import dataclasses
import enum

from quintain import errors
from quintain.client import address as address_lib
from quintain.client.home import home as home_lib
from quintain.client.home import token_files
from quintain.cluster.agents import agent_launcher
from quintain.cluster.ray import ray_launcher, ray_messages
from quintain.master.cleanup import home_identity
from quintain.master.processes import launcher as launcher_lib
from quintain.master.processes import process_launcher
from quintain.records.rows import states
from quintain.store import store as store_lib


class LauncherKind(enum.StrEnum):
    """Kinds of launchers."""

    LOCAL = "local"
    """On its own machine only."""

    AGENTS = "agents"
    """On its own machine, and on those whose agents join."""

    RAY = "ray"
    """The same, and Ray keeps an agent on each node of its cluster."""


@dataclasses.dataclass(frozen=True)
class LauncherSettings:
    """Settings of a launcher."""

    kind: LauncherKind = LauncherKind.AGENTS
    """Where trials are started."""

    node_timeout_secs: float = agent_launcher.NODE_TIMEOUT_SECS
    """A machine of which nothing was heard for so long is lost."""

    ray: ray_messages.Settings = dataclasses.field(default_factory=ray_messages.Settings)
    """Ray's cluster, if it is asked for one."""

    growth: ray_messages.Growth | None = None
    """How far that grows and shrinks with what trials want; None if it does not."""


def build(
    settings: LauncherSettings, home: home_lib.Home, store: store_lib.Store, *, has_slots: bool
) -> launcher_lib.Launcher:
    """Returns a launcher.

    Args:
        settings: Which one.
        home: The home directory of the master.
        store: What the master before has left. If an experiment goes on, it is its code that
            processes are kept ready for: another one would import TensorFlow for nothing.
        has_slots: Whether trials are started on this machine: then what they import is imported
            once, at once.

    Raises:
        ClusterError: If there is no connection to the cluster.
    """
    local = process_launcher.ProcessLauncher()
    if has_slots:
        with store.reading() as session:
            active = session.list_experiments(states=[states.ExperimentState.ACTIVE])
        local.warm_up(active[0].model_dir if active else "")
    if settings.kind is LauncherKind.LOCAL:
        return local
    timeout_secs = settings.node_timeout_secs
    if settings.kind is LauncherKind.AGENTS:
        return agent_launcher.AgentLauncher(local, node_timeout_secs=timeout_secs)
    by_ray = ray_launcher.RayLauncher(
        local,
        settings.ray,
        home.logs / "ray.log",
        growth=settings.growth,
        node_timeout_secs=timeout_secs,
    )
    try:
        by_ray.connect()
    except errors.ClusterError:
        local.close(kill=False)
        raise
    return by_ray


def find_agents(launcher: launcher_lib.Launcher) -> agent_launcher.AgentLauncher | None:
    """Returns what answers agents, or None if none may join."""
    return launcher if isinstance(launcher, agent_launcher.AgentLauncher) else None


def join(
    launcher: launcher_lib.Launcher, home: home_lib.Home, *, url: str, fingerprint: str
) -> None:
    """Lets Ray start agents, where it is to, now that the master answers them.

    Args:
        launcher: The launcher.
        home: The home directory of the master.
        url: Where the master answers.
        fingerprint: Of its certificate; empty if it has none.
    """
    if isinstance(launcher, ray_launcher.RayLauncher):
        token = token_files.load(home.agent_token)
        home_id = home_identity.read_id(home.path)
        assert home_id is not None, "a master that runs has claimed its home"
        launcher.join(home_id, address_lib.Address(url, token, fingerprint))
