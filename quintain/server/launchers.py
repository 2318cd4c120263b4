"""Which launcher a master has: what starts its trials, and where."""

import dataclasses
import enum

from quintain.cluster import agent_launcher
from quintain.scheduler import launcher as launcher_lib
from quintain.scheduler import process_launcher


class LauncherKind(enum.StrEnum):
    """Where a master starts trials."""

    LOCAL = "local"
    """On its own machine only."""

    AGENTS = "agents"
    """On its own machine, and on those whose agents join."""


@dataclasses.dataclass(frozen=True)
class LauncherSettings:
    """What a launcher is built from."""

    kind: LauncherKind = LauncherKind.AGENTS
    """Where trials are started."""

    node_timeout_secs: float = agent_launcher.NODE_TIMEOUT_SECS
    """A machine of which nothing was heard for so long is lost."""


def build(settings: LauncherSettings, *, has_slots: bool) -> launcher_lib.Launcher:
    """Returns a launcher.

    Args:
        settings: Which one.
        has_slots: Whether trials are started on this machine: then what they import is imported
            once, at once.
    """
    local = process_launcher.ProcessLauncher()
    if has_slots:
        local.warm_up()
    if settings.kind is LauncherKind.LOCAL:
        return local
    return agent_launcher.AgentLauncher(local, node_timeout_secs=settings.node_timeout_secs)


def find_agents(launcher: launcher_lib.Launcher) -> agent_launcher.AgentLauncher | None:
    """Returns what answers agents, or None if none may join."""
    return launcher if isinstance(launcher, agent_launcher.AgentLauncher) else None
