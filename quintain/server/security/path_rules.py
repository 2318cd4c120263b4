"""Access rules by path: one table.

Each address that the master answers has a line, or the master does not start. Unlisted paths return
404 to users, 403 to others.
"""

import collections
import enum
import re
from collections.abc import Iterable, Mapping
from typing import Final

from starlette import routing

from quintain import errors


class Client(enum.Flag):
    """Kinds of clients, by the credentials of a request."""

    USER = enum.auto()
    """Has the user's token."""

    PAGE = enum.auto()
    """Has the cookie of a user's browser: what the page asks for."""

    LAUNCH = enum.auto()
    """Has the token of one start of a trial: its process. May ask for what is its own only."""

    AGENT = enum.auto()
    """Has the token of agents, which start processes on other machines."""

    METRICS = enum.auto()
    """Has the token of a Prometheus server, which reads numbers only."""


_USER: Final = Client.USER
_PAGE: Final = Client.USER | Client.PAGE
_LAUNCH: Final = Client.USER | Client.LAUNCH
_AGENT: Final = Client.AGENT
_RUN: Final = "/trials/{trial_id}/runs/{launch_id}"
_FILES: Final = f"{_RUN}/files"

TABLE: Final[Mapping[str, Mapping[str, Client]]] = {
    "/agents/{name}": {"PUT": _AGENT, "DELETE": _AGENT},
    "/agents/{name}/orders": {"GET": _AGENT},
    "/agents/{name}/reports": {"POST": _AGENT},
    "/checkpoints": {"GET": _USER},
    "/checkpoints/orphans": {"GET": _USER},
    "/checkpoints/orphans/{name}": {"DELETE": _USER},
    "/checkpoints/orphans/{name}/adopt": {"POST": _USER},
    "/checkpoints/{uuid}": {"GET": _USER, "DELETE": _PAGE},
    "/checkpoints/{uuid}/archive.tar": {"GET": _PAGE},
    "/checkpoints/{uuid}/export": {"POST": _PAGE},
    "/checkpoints/{uuid}/export.tar": {"GET": _PAGE},
    "/checkpoints/{uuid}/files": {"GET": _USER},
    "/checkpoints/{uuid}/files/{name:path}": {"GET": _PAGE},
    "/events": {"GET": _PAGE},
    "/experiments": {"GET": _PAGE, "POST": _USER},
    "/experiments/check": {"POST": _PAGE},
    "/experiments/{experiment_id}": {"GET": _PAGE, "PATCH": _PAGE, "DELETE": _PAGE},
    "/experiments/{experiment_id}/checkpoints": {"GET": _USER},
    "/experiments/{experiment_id}/continue": {"POST": _PAGE},
    "/experiments/{experiment_id}/curves": {"GET": _PAGE},
    "/experiments/{experiment_id}/events": {"GET": _USER},
    "/experiments/{experiment_id}/files": {"GET": _PAGE},
    "/experiments/{experiment_id}/files.tar": {"GET": _PAGE},
    "/experiments/{experiment_id}/files/{name:path}": {"GET": _PAGE},
    "/experiments/{experiment_id}/following": {"GET": _USER},
    "/experiments/{experiment_id}/fork": {"POST": _PAGE},
    "/experiments/{experiment_id}/importance": {"GET": _PAGE},
    "/experiments/{experiment_id}/logs": {"GET": _PAGE},
    "/experiments/{experiment_id}/provenance": {"GET": _PAGE},
    "/experiments/{experiment_id}/search": {"GET": _PAGE},
    "/experiments/{experiment_id}/table": {"GET": _PAGE},
    "/experiments/{experiment_id}/table.csv": {"GET": _PAGE},
    "/experiments/{experiment_id}/trials": {"GET": _PAGE},
    "/experiments/{experiment_id}/{command}": {"POST": _PAGE},
    "/master": {"GET": _PAGE},
    "/master/sign-in": {"POST": _USER},
    "/master/sign-out": {"POST": _PAGE},
    "/master/sign-out-all": {"POST": _USER},
    "/master/status": {"GET": _USER},
    "/master/stop": {"POST": _USER},
    "/master/summary": {"GET": _USER},
    "/metrics": {"GET": Client.USER | Client.METRICS},
    "/nodes": {"GET": _USER},
    "/nodes/{name}/activate": {"POST": _USER},
    "/nodes/{name}/drain": {"POST": _USER},
    "/openapi.json": {"GET": _USER},
    "/runs": {"GET": _PAGE},
    "/runs/folders": {"POST": _USER},
    "/runs/{name}": {"GET": _PAGE},
    "/runs/{name}/curves": {"GET": _PAGE},
    "/runs/{name}/samples": {"GET": _PAGE},
    "/runs/{name}/stop": {"POST": _PAGE},
    "/slots": {"GET": _PAGE},
    "/tensorboard": {"POST": _PAGE},
    "/timeline": {"GET": _PAGE},
    "/trials": {"GET": _USER},
    "/trials/{trial_id}": {"GET": _PAGE, "PATCH": _PAGE},
    "/trials/{trial_id}/batch_metrics": {"GET": _USER},
    "/trials/{trial_id}/checkpoints": {"GET": _PAGE},
    "/trials/{trial_id}/continue": {"POST": _PAGE},
    "/trials/{trial_id}/kill": {"POST": _PAGE},
    "/trials/{trial_id}/logs": {"GET": _PAGE},
    "/trials/{trial_id}/metrics": {"GET": _USER},
    "/trials/{trial_id}/points": {"GET": _PAGE},
    "/trials/{trial_id}/rerun": {"POST": _PAGE},
    "/trials/{trial_id}/runs": {"POST": _LAUNCH},
    f"{_RUN}/damage": {"POST": _LAUNCH},
    f"{_RUN}/exit": {"POST": _LAUNCH},
    f"{_RUN}/rendezvous": {"POST": _LAUNCH},
    f"{_RUN}/results": {"POST": _LAUNCH},
    f"{_RUN}/wait": {"PUT": _LAUNCH},
    f"{_RUN}/workload": {"GET": _LAUNCH},
    f"{_FILES}/checkpoints/{{uuid}}": {"GET": _LAUNCH},
    f"{_FILES}/checkpoints/{{uuid}}/{{name:path}}": {"GET": _LAUNCH},
    f"{_FILES}/code": {"GET": _LAUNCH},
    f"{_FILES}/code/{{name:path}}": {"GET": _LAUNCH},
    f"{_FILES}/events": {"GET": _LAUNCH},
    f"{_FILES}/events/{{name:path}}": {"PUT": _LAUNCH},
    f"{_FILES}/places": {"GET": _LAUNCH},
    f"{_FILES}/uploads/{{uuid}}": {"POST": _LAUNCH, "DELETE": _LAUNCH},
    f"{_FILES}/uploads/{{uuid}}/commit": {"POST": _LAUNCH},
    f"{_FILES}/uploads/{{uuid}}/files/{{name:path}}": {"PUT": _LAUNCH},
    "/uploads/{name}": {"GET": _USER, "PUT": _USER},
}
"""Who may ask by which method, by the pattern of an address below the prefix of all of them."""


def find_clients(method: str, path: str) -> Client:
    """Returns who may ask for an address.

    Where several lines fit, it is for those whom each of them names: it does not matter which of
    them the request is for. A launch may only for its own ones, which this does not say.

    Args:
        method: How it is asked; `HEAD` as `GET`.
        path: The address below the prefix of all of them.

    Example:
        >>> find_clients("GET", "/agents/a/orders") == Client.AGENT
        True
        >>> find_clients("POST", "/experiments") == Client.USER
        True
    """
    asked = "GET" if method == "HEAD" else method
    found = ~Client(0)
    is_known = False
    for pattern, methods in _PATTERNS.get(_first_part(path), ()):
        if asked in methods and pattern.match(path):
            found, is_known = found & methods[asked], True
    return found if is_known else Client.USER


def is_open(method: str, path: str) -> bool:
    """Returns whether who shows no token may ask for an address: for the page, or to sign in.

    Args:
        method: How it is asked.
        path: The whole address.
    """
    is_page = path in ("/", "/sign-in") or path.startswith("/static/")
    return is_page and method in ("GET", "HEAD")


def has_steps(path: str) -> bool:
    """Returns whether an address has parts that lead elsewhere, or nowhere.

    Example:
        >>> [has_steps(path) for path in ("/agents/a", "/agents/../master", "/agents//a")]
        [False, True, True]
    """
    return any(part in ("", ".", "..") for part in path.split("/")[1:])


def check_routes(routes: Iterable[routing.BaseRoute], prefix: str) -> None:
    """Checks that the table says for whom each address of a master is.

    Args:
        routes: What the master answers.
        prefix: Start of all addresses, which the table leaves out.

    Raises:
        RegistryError: If it does not.
    """
    for route in routes:
        path = getattr(route, "path", "").removeprefix(prefix)
        for method in getattr(route, "methods", None) or [type(route).__name__]:
            if method not in TABLE.get(path, {}):
                raise errors.RegistryError(
                    f"{method} {path}: `server.security.path_rules.TABLE` has no line for it."
                )


def _first_part(path: str) -> str:
    return path.split("/", 2)[1].strip() if path.startswith("/") else ""


def _compile() -> dict[str, list[tuple[re.Pattern[str], Mapping[str, Client]]]]:
    """Returns the table by the first part of the addresses, which keeps looking it up short."""
    patterns = collections.defaultdict(list)
    for path, methods in TABLE.items():
        # As the routes do it.
        patterns[_first_part(path)].append((routing.compile_path(path)[0], methods))
    return dict(patterns)


_PATTERNS: Final = _compile()
