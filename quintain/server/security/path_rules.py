"""Access rules by path: one table.

Each address that the master answers has a line, or the master does not start. Unlisted paths return
404 to users, 403 to others.
"""

import collections
import enum
import functools
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from starlette import routing

from quintain import errors
from quintain.records import team


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


class Rule(NamedTuple):
    """Rule of an address: who may ask for it."""

    clients: Client
    """Who may ask."""

    role: team.Role
    """What a user has to be, over the project of what the address or its query names. Where they
    name nothing, over all projects."""

    is_any: bool = False
    """Whether a role over any project is enough where nothing is named."""

    why: str = ""
    """Why a role over a project is not enough, for who has one."""


_READ: Final = Rule(Client.USER, team.Role.VIEWER)
_EDIT: Final = Rule(Client.USER, team.Role.EDITOR)
_ADMIN: Final = Rule(Client.USER, team.Role.ADMIN)
_PAGE: Final = Rule(Client.USER | Client.PAGE, team.Role.VIEWER)
_PAGE_EDIT: Final = Rule(Client.USER | Client.PAGE, team.Role.EDITOR)
_OWN: Final = Rule(Client.USER, team.Role.VIEWER, is_any=True)
_PAGE_OWN: Final = Rule(Client.USER | Client.PAGE, team.Role.VIEWER, is_any=True)
_LAUNCH: Final = Rule(Client.USER | Client.LAUNCH, team.Role.ADMIN)
_AGENT: Final = Rule(Client.AGENT, team.Role.ADMIN)

_OF_RUN: Final = _PAGE._replace(why=", as runs of `quintain train` are in none")

IDS: Final = ("experiment_id", "trial_id", "uuid")
"""Names in addresses and queries of what belongs to a project."""

_RUN: Final = "/trials/{trial_id}/runs/{launch_id}"
_FILES: Final = f"{_RUN}/files"

TABLE: Final[Mapping[str, Mapping[str, Rule]]] = {
    "/agents/{name}": {"PUT": _AGENT, "DELETE": _AGENT},
    "/agents/{name}/orders": {"GET": _AGENT},
    "/agents/{name}/reports": {"POST": _AGENT},
    "/audit": {"GET": _PAGE},
    "/checkpoints": {"GET": _READ},
    "/checkpoints/orphans": {"GET": _READ},
    "/checkpoints/orphans/{name}": {"DELETE": _ADMIN},
    "/checkpoints/orphans/{name}/adopt": {"POST": _ADMIN},
    "/checkpoints/{uuid}": {"GET": _READ, "DELETE": _PAGE_EDIT},
    "/checkpoints/{uuid}/archive.tar": {"GET": _PAGE},
    "/checkpoints/{uuid}/export": {"POST": _PAGE_EDIT},
    "/checkpoints/{uuid}/export.tar": {"GET": _PAGE},
    "/checkpoints/{uuid}/files": {"GET": _READ},
    "/checkpoints/{uuid}/files/{name:path}": {"GET": _PAGE},
    "/events": {"GET": _PAGE_OWN},
    "/experiments": {"GET": _PAGE_OWN, "POST": _EDIT._replace(is_any=True)},
    "/experiments/check": {"POST": _PAGE_EDIT._replace(is_any=True)},
    "/experiments/{experiment_id}": {"GET": _PAGE, "PATCH": _PAGE_EDIT, "DELETE": _PAGE_EDIT},
    "/experiments/{experiment_id}/best": {"GET": _PAGE},
    "/experiments/{experiment_id}/checkpoints": {"GET": _READ},
    "/experiments/{experiment_id}/continue": {"POST": _PAGE_EDIT},
    "/experiments/{experiment_id}/curves": {"GET": _PAGE},
    "/experiments/{experiment_id}/events": {"GET": _READ},
    "/experiments/{experiment_id}/files": {"GET": _PAGE},
    "/experiments/{experiment_id}/files.tar": {"GET": _PAGE},
    "/experiments/{experiment_id}/files/{name:path}": {"GET": _PAGE},
    "/experiments/{experiment_id}/following": {"GET": _READ},
    "/experiments/{experiment_id}/fork": {"POST": _PAGE_EDIT},
    "/experiments/{experiment_id}/importance": {"GET": _PAGE},
    "/experiments/{experiment_id}/logs": {"GET": _PAGE},
    "/experiments/{experiment_id}/provenance": {"GET": _PAGE},
    "/experiments/{experiment_id}/rewind": {"POST": _EDIT},
    "/experiments/{experiment_id}/search": {"GET": _PAGE},
    "/experiments/{experiment_id}/table": {"GET": _PAGE},
    "/experiments/{experiment_id}/table.csv": {"GET": _PAGE},
    "/experiments/{experiment_id}/trials": {"GET": _PAGE},
    "/experiments/{experiment_id}/{command}": {"POST": _PAGE_EDIT},
    "/master": {"GET": _PAGE_OWN},
    "/master/sign-in": {"POST": _OWN},
    "/master/sign-out": {"POST": _PAGE_OWN},
    "/master/sign-out-all": {"POST": _ADMIN},
    "/master/status": {"GET": _OWN},
    "/master/stop": {"POST": _ADMIN},
    "/master/summary": {"GET": _OWN},
    "/metrics": {"GET": Rule(Client.USER | Client.METRICS, team.Role.VIEWER)},
    "/models": {"GET": _PAGE},
    "/models/{name}": {"GET": _READ},
    # Whatever is in a path may run where it is served, so that a cookie can't name one.
    "/models/{name}/paths": {"POST": _ADMIN},
    "/models/{name}/versions": {"POST": _PAGE_EDIT},
    "/models/{name}/versions/{version}": {"DELETE": _EDIT},
    "/models/{name}/versions/{version}/promote": {"POST": _PAGE_EDIT},
    "/nodes": {"GET": _OWN},
    "/nodes/{name}/activate": {"POST": _ADMIN},
    "/nodes/{name}/drain": {"POST": _ADMIN},
    "/openapi.json": {"GET": _OWN},
    "/runs": {"GET": _OF_RUN},
    "/runs/folders": {"POST": _ADMIN},
    "/runs/{name}": {"GET": _OF_RUN},
    "/runs/{name}/curves": {"GET": _OF_RUN},
    "/runs/{name}/samples": {"GET": _OF_RUN},
    "/runs/{name}/stop": {"POST": _OF_RUN._replace(role=team.Role.EDITOR)},
    "/slots": {"GET": _PAGE_OWN},
    "/tensorboard": {"POST": _PAGE_EDIT},
    "/timeline": {"GET": _PAGE_OWN},
    "/trials": {"GET": _READ},
    "/trials/{trial_id}": {"GET": _PAGE, "PATCH": _PAGE_EDIT},
    "/trials/{trial_id}/batch_metrics": {"GET": _READ},
    "/trials/{trial_id}/checkpoints": {"GET": _PAGE},
    "/trials/{trial_id}/continue": {"POST": _PAGE_EDIT},
    "/trials/{trial_id}/kill": {"POST": _PAGE_EDIT},
    "/trials/{trial_id}/logs": {"GET": _PAGE},
    "/trials/{trial_id}/metrics": {"GET": _READ},
    "/trials/{trial_id}/points": {"GET": _PAGE},
    "/trials/{trial_id}/rerun": {"POST": _PAGE_EDIT},
    "/trials/{trial_id}/runs": {"POST": _LAUNCH},
    f"{_RUN}/damage": {"POST": _LAUNCH},
    f"{_RUN}/exit": {"POST": _LAUNCH},
    f"{_RUN}/rendezvous": {"POST": _LAUNCH},
    f"{_RUN}/results": {"POST": _LAUNCH},
    f"{_RUN}/steps": {"PUT": _LAUNCH},
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
    "/uploads/{name}": {"GET": _EDIT._replace(is_any=True), "PUT": _EDIT._replace(is_any=True)},
    "/users": {"GET": _READ},
    "/users/{name}/roles": {"PUT": _ADMIN, "DELETE": _ADMIN},
    "/views": {
        "GET": _PAGE_OWN,
        "PUT": _PAGE_EDIT._replace(is_any=True),
        "DELETE": _PAGE_EDIT._replace(is_any=True),
    },
    "/whoami": {"GET": _PAGE_OWN},
}
"""Rules by method, by the pattern of an address below the prefix of all of them."""


def find_rule(method: str, path: str) -> tuple[Rule, list[tuple[str, str]]]:
    """Returns the rule of an address, and names and values of the ids in it.

    Where several lines fit, it is for those whom each of them allows: it does not matter which of
    them the request is for. A launch may only ask for its own ones, which this does not say.

    Args:
        method: How it is asked; `HEAD` as `GET`.
        path: The address below the prefix of all of them.

    Example:
        >>> find_rule("GET", "/agents/a/orders")[0].clients == Client.AGENT
        True
        >>> rule, ids = find_rule("POST", "/trials/5/kill")
        >>> rule.role.value, ids
        ('editor', [('trial_id', '5')])
    """
    asked = "GET" if method == "HEAD" else method
    fitting: list[Rule] = []
    ids: list[tuple[str, str]] = []
    for pattern, methods in _PATTERNS.get(_first_part(path), ()):
        if asked in methods and (match := pattern.match(path)):
            fitting.append(methods[asked])
            ids += [(name, text) for name, text in match.groupdict().items() if name in IDS]
    if not fitting:
        return _ADMIN, ids
    clients = functools.reduce(operator.and_, (each.clients for each in fitting))
    role = max((each.role for each in fitting), key=list(team.Role).index)
    return Rule(clients, role, all(each.is_any for each in fitting), fitting[0].why), ids


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


def _compile() -> dict[str, list[tuple[re.Pattern[str], Mapping[str, Rule]]]]:
    """Returns the table by the first part of the addresses, which keeps looking it up short."""
    patterns = collections.defaultdict(list)
    for path, methods in TABLE.items():
        # As the routes do it.
        patterns[_first_part(path)].append((routing.compile_path(path)[0], methods))
    return dict(patterns)


_PATTERNS: Final = _compile()
