"""Parts of a master that answer requests, as routes are given them."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Final

import anyio
import fastapi

from quintain.cluster.agents import agent_launcher
from quintain.master import master as master_lib
from quintain.records.views import master_status
from quintain.server import (
    code_uploads,
    direct_calls,
    exports,
    monitoring,
    saved_views,
    tensorboards,
)
from quintain.server.feed import feed as feed_lib
from quintain.server.runs import run_index
from quintain.server.runs import run_reader as run_reader_lib
from quintain.server.security import roles
from quintain.server.security import sign_in as sign_in_lib

_MAX_WORKERS: Final = 1024
_MOST_CHECKS: Final = 2
_MOST_COMMITS: Final = 4


@dataclasses.dataclass(frozen=True)
class Parts:
    """All that answers."""

    calls: direct_calls.DirectCalls
    """Reads."""

    master: master_lib.Master
    """Commands, and the calls of workers."""

    info: master_status.MasterInfo
    """Which master this is."""

    stop: Callable[[bool], None]
    """Asks the process to stop and returns at once; the argument says whether to drain."""

    is_stopping: Callable[[], bool]
    """Whether the process is about to stop, and nobody should wait any more."""

    sign_in: sign_in_lib.SignIn
    """Links to the page, and sessions."""

    tensorboards: tensorboards.TensorBoards
    """Those of the page."""

    roles: roles.Roles
    """What users may do."""

    uploads: code_uploads.CodeUploads
    """Code that users sent from other machines."""

    exports: exports.Exports
    """Exported models."""

    metrics: monitoring.MasterMetrics
    """Metrics for Prometheus."""

    runs: run_index.RunIndex
    """Runs of `quintain train`."""

    views: saved_views.SavedViews
    """Named views of the page."""

    agents: agent_launcher.AgentLauncher | None
    """Answers agents of other machines; None if there are none."""

    feed: feed_lib.Feed | None
    """What changes; None where nobody can follow."""

    run_reader: run_reader_lib.RunReader = dataclasses.field(
        default_factory=run_reader_lib.RunReader
    )
    """Reads runs."""

    waiting_workers: anyio.CapacityLimiter = dataclasses.field(
        default_factory=lambda: anyio.CapacityLimiter(_MAX_WORKERS)
    )
    """Threads of waiting workers, apart from those of users and of reports, who never wait for
    them."""

    damage_checks: anyio.CapacityLimiter = dataclasses.field(
        default_factory=lambda: anyio.CapacityLimiter(_MOST_CHECKS)
    )
    """Checkpoints that are read through at once, because trials say that they are damaged."""

    commits: anyio.CapacityLimiter = dataclasses.field(
        default_factory=lambda: anyio.CapacityLimiter(_MOST_COMMITS)
    )
    """Checkpoints that are read again at a time, before they are complete."""


async def _find(request: fastapi.Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


Given = Annotated[Parts, fastapi.Depends(_find)]
"""Parameter of routes."""
