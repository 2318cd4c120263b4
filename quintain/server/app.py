"""The HTTP interface of a master: REST below `/api/v1`, for users and for the processes of trials.

Requests carry a token as `Authorization: Bearer TOKEN`, or the cookie of a browser; `access` says
whose is good for what. The page is below a path of its own; see `routes.page`.
Before its route a request passes five steps: headers of answers, the life of a request
(`request_life`), the name of the server, who asks, and the body.
Answers are records as JSON; what went wrong comes as `{"error": {"kind": ..., "message": ...}}`.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Final

import fastapi
from fastapi import exceptions
from starlette import exceptions as starlette_exceptions
from starlette import types
from starlette.middleware import gzip

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.notebook import run_notes
from quintain.cluster.agents import agent_launcher
from quintain.master import master as master_lib
from quintain.master.processes import launch_tokens
from quintain.records.views import master_status
from quintain.server import code_uploads, direct_calls, monitoring, saved_views
from quintain.server import exports as exports_lib
from quintain.server import tensorboards as tensorboards_lib
from quintain.server.feed import feed as feed_lib
from quintain.server.http import responses
from quintain.server.routes import agents as agent_routes
from quintain.server.routes import (
    downloads,
    events,
    experiments,
    files,
    overview,
    page,
    parts,
    trial_data,
    users,
    workers,
)
from quintain.server.runs import run_index
from quintain.server.security import access, path_rules, roles
from quintain.server.security import sessions as sessions_lib
from quintain.server.security import sign_in as sign_in_lib
from quintain.web import request_checks, request_life

MAX_BODY_BYTES: Final = 8 * 2**20
"""Largest request of a user."""

MAX_RESULT_BYTES: Final = 64 * 2**20
"""Largest request of a trial's process: the metrics of 350,000 batches of one workload, say."""

_UNCOMPRESSED: Final = (
    *gzip.DEFAULT_EXCLUDED_CONTENT_TYPES,
    *("application/octet-stream", "application/x-tar"),
)
_LEAST_BYTES: Final = 1024
_THREAD_BYTES: Final = 32 * 1024
"""So large answers are compressed in a thread."""

_MAX_HELD_BYTES: Final = 256 * 2**20


@dataclasses.dataclass(frozen=True)
class Services:
    """Services of the interface besides the master."""

    sign_in: sign_in_lib.SignIn | None = None
    """Links to the page, and cookies; some that are forgotten with the process if None."""

    feed: feed_lib.Feed | None = None
    """Changes of the store; without it there is no `/events`."""

    agents: agent_launcher.AgentLauncher | None = None
    """Answers agents of other machines; None if there are none."""

    tensorboards: tensorboards_lib.TensorBoards | None = None
    """Starts them for the page; some that are never closed if None."""

    proxy: access.TrustedProxy | None = None
    """Names users in a header; nobody does if None."""


def build_app(
    calls: direct_calls.DirectCalls,
    master: master_lib.Master,
    info: master_status.MasterInfo,
    *,
    token: str,
    launch_key: launch_tokens.LaunchKey,
    stop: Callable[[bool], None],
    is_stopping: Callable[[], bool] = lambda: False,
    services: Services = Services(),
) -> fastapi.FastAPI:
    """Builds the interface of a master.

    Args:
        calls: What answers what users read.
        master: What answers their commands, and workers.
        info: Which master this is.
        token: What requests of its user have to carry.
        launch_key: Knows what requests of trials' processes have to carry.
        stop: Asks the process to stop and returns at once; the argument says whether trials save
            themselves first.
        is_stopping: Whether the process is about to stop.
        services: What it offers besides.
    """
    sign_in = services.sign_in or sign_in_lib.SignIn(info.url, sessions_lib.Sessions(port=0))
    home = home_lib.Home(pathlib.Path(info.home))
    metrics = monitoring.MasterMetrics(master, calls.store, info.version)
    given = parts.Parts(
        calls=calls,
        master=master,
        info=info,
        stop=stop,
        is_stopping=is_stopping,
        sign_in=sign_in,
        tensorboards=services.tensorboards or tensorboards_lib.TensorBoards(home),
        roles=roles.Roles(calls.store, calls, home.user_tokens),
        uploads=code_uploads.CodeUploads(home.path),
        exports=exports_lib.Exports(home),
        metrics=metrics,
        runs=run_index.RunIndex(
            map(pathlib.Path, info.run_dirs), lambda: run_notes.list_paths(home)
        ),
        views=saved_views.SavedViews(home.views_file),
        agents=services.agents,
        feed=services.feed,
    )
    app = fastapi.FastAPI(
        title="Quintain",
        version=info.version,
        description="Numbers that are not finite are the texts `NaN`, `Infinity`, `-Infinity`.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        openapi_url=f"{responses.PREFIX}/openapi.json",
    )
    app.state.parts = given
    app.add_exception_handler(errors.QuintainError, responses.handle_error)
    app.add_exception_handler(OSError, responses.OsErrorHandler(info.home))
    app.add_exception_handler(Exception, responses.handle_fault)
    app.add_exception_handler(exceptions.RequestValidationError, responses.handle_bad_request)
    app.add_exception_handler(starlette_exceptions.HTTPException, responses.handle_http_error)

    # The last one added is the first one asked.
    app.add_middleware(
        request_checks.BodyCheck,
        refuse=responses.refuse,
        find_max_bytes=_find_max_bytes,
        max_held_bytes=_MAX_HELD_BYTES,
        is_stream=files.is_stream,
    )
    app.add_middleware(
        access.TokenCheck,
        token=token,
        launch_key=launch_key,
        sign_in=sign_in,
        home=home,
        roles=given.roles,
        proxy=services.proxy,
    )
    app.add_middleware(
        gzip.GZipMiddleware,
        minimum_size=_LEAST_BYTES,
        compresslevel=1,  # Pages are mostly on the same machine: time counts more than bytes.
        thread_minimum_size=_THREAD_BYTES,
        exclude_content_types=_UNCOMPRESSED,
    )
    app.add_middleware(request_checks.HostCheck, refuse=responses.refuse, hosts=sign_in.all_hosts)
    app.add_middleware(
        request_life.RequestLife, refuse=responses.refuse, observe=metrics.observe_request
    )
    app.add_middleware(responses.AnswerHeaders)
    for router in (
        workers.router,
        files.router,
        workers.build_router(given),
        agent_routes.router,
        overview.router,
        experiments.router,
        trial_data.router,
        downloads.router,
        *([] if services.feed is None else [events.router]),
        users.build_router(given),
    ):
        path_rules.check_routes(router.routes, responses.PREFIX)
        app.router.routes += router.routes
    app.router.routes += page.router.routes
    return app


def _find_max_bytes(scope: types.Scope) -> int:
    return MAX_BODY_BYTES if scope["state"][access.LAUNCH] is None else MAX_RESULT_BYTES
