"""Access control of a master: users for everything, others for their own work.

A trial's process does the work of its trial, an agent that of agents; `path_rules` has the table.

The user's browser shows a cookie in place of the token. It sends it whoever makes it ask, so that
such a request has to come from the page itself: from no other site, and from no other port of this
machine, which browsers take for the same site.
"""

import dataclasses
import ipaddress
import secrets
from typing import Final

import anyio
import fastapi
from starlette import datastructures, types

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.home import token_files
from quintain.master.processes import launch_tokens
from quintain.server.http import responses
from quintain.server.security import path_rules
from quintain.server.security import roles as roles_lib
from quintain.server.security import sign_in as sign_in_lib
from quintain.web import connections

LAUNCH: Final = "launch"
"""Name in the state of a request (`scope["state"]`): the (trial, launch) whose token it carries."""

SESSION: Final = "session"
"""Name in the state of a request: the session whose cookie it carries in place of a token."""

USER: Final = "user"
"""Name in the state of a request: the user who asks; None for others, and at open addresses."""

IS_BROWSER: Final = "is_browser"
"""Name in the state of a request: whether it is known by a cookie or a trusted proxy."""

IS_PAGE: Final = "is_page"
"""Name in the state of a request: whether it came below the path that nobody can guess."""

_SCHEME: Final = "bearer "
_READS: Final = ("GET", "HEAD")


@dataclasses.dataclass(frozen=True)
class TrustedProxy:
    """Proxy that knows users, and names them in a header."""

    header: str
    """Name of the header."""

    address: str
    """Where its connections come from."""

    def find_user(self, scope: types.Scope) -> str | None:
        """Returns the user whom the proxy names, or None if it is not the proxy, or names nobody.

        Raises:
            ConfigError: If there can be no such user.
        """
        given = datastructures.Headers(scope=scope).getlist(self.header)
        if not given or not scope.get("client"):  # The socket of the home has no address.
            return None
        came_from = ipaddress.ip_address(scope["client"][0])
        came_from = getattr(came_from, "ipv4_mapped", None) or came_from
        is_private = scope["scheme"] == "https" or came_from.is_loopback
        if came_from != ipaddress.ip_address(self.address) or not is_private:
            return None
        return token_files.check_name(",".join(given), where=self.header)


@dataclasses.dataclass
class _Asker:
    user: str | None = None
    session: str | None = None
    launch: tuple[int, str] | None = None
    refusal: types.ASGIApp | None = None
    """The answer, if they may not ask."""
    is_browser: bool = False


class TokenCheck:
    """Turns away requests that do not carry a token, or not one for what they ask.

    The owner's token opens everything but the addresses of agents, so that no machine is given more
    than it needs; those of other users what their roles allow. The token of a launch opens the
    addresses of this launch, that of agents those of agents, that of metrics those of metrics, and
    nothing else.
    The cookie of a browser, or a trusted proxy, opens what the page asks for.

    Args:
        app: What answers.
        token: The user's token.
        launch_key: Knows the tokens of launches.
        sign_in: Knows the cookies of browsers.
        home: Has the tokens of agents, Prometheus servers and users of other machines.
        roles: What users may do.
        proxy: Names users of its own; nobody does if None.
    """

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        token: str,
        launch_key: launch_tokens.LaunchKey,
        sign_in: sign_in_lib.SignIn,
        home: home_lib.Home,
        roles: roles_lib.Roles,
        proxy: TrustedProxy | None = None,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._launch_key = launch_key
        self._sign_in = sign_in
        self._narrow_tokens = {
            path_rules.Client.AGENT: (token_files.KnownToken(home.agent_token), "agents"),
            path_rules.Client.METRICS: (token_files.KnownToken(home.metrics_token), "metrics"),
        }
        self._user_tokens = home.user_tokens
        self._roles = roles
        self._proxy = proxy

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Handles a request as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope, is_page = self._take_off_page(scope)
        asker = self._ask_proxy(scope)
        # Whatever is sent to an open address: the page says how to sign in.
        is_open = path_rules.is_open(scope["method"], scope["path"])
        if not is_open and asker.refusal is None:
            asker = self._identify(scope, asker.user, is_page=is_page)
            if asker.user is not None and asker.refusal is None:
                asker.refusal = await self._check_role(scope, asker.user)
        # In place: the connection looks at it, too.
        state = scope.setdefault("state", {})
        state.update({LAUNCH: asker.launch, SESSION: asker.session, USER: asker.user})
        state.update({IS_BROWSER: asker.is_browser, IS_PAGE: is_page})
        state[connections.KNOWN] = asker.refusal is None and not is_open
        if asker.refusal is not None:
            await asker.refusal(scope, receive, send)
        elif asker.is_browser:
            sending = send if asker.session is None else self._end_with_session(scope, send)
            with self._sign_in.answering():
                await self._app(scope, receive, sending)
        else:
            await self._app(scope, receive, send)

    def _ask_proxy(self, scope: types.Scope) -> _Asker:
        """Returns the user whom a trusted proxy names; a token counts more."""
        if self._proxy is None or read_token(scope) is not None:
            return _Asker()
        try:
            return _Asker(self._proxy.find_user(scope))
        except errors.ConfigError as error:
            return _Asker(refusal=_forbid(str(error)))

    def _identify(self, scope: types.Scope, proxied: str | None, *, is_page: bool) -> _Asker:
        """Returns who asks for an address that is not open.

        Args:
            scope: The request.
            proxied: The user whom a trusted proxy names.
            is_page: Whether it came below the path that nobody can guess.
        """
        if is_page and not scope["path"]:
            # What is relative to the page needs the slash.
            to_page = {"Location": f"{self._sign_in.sessions.page_path}/"}
            return _Asker(refusal=fastapi.Response(status_code=303, headers=to_page))
        given = read_token(scope)
        if given is None:
            session = None if proxied else self._sign_in.find_session(scope)
            user = self._sign_in.sessions.find_user(session) if session else proxied
            refusal = self._find_problem(scope) if user else _NO_TOKEN
            return _Asker(user, session, refusal=refusal, is_browser=user is not None)
        if (user := self._find_user(given)) is not None:
            is_for = path_rules.Client.USER in self._find_rule(scope)[0].clients
            return _Asker(user, refusal=None if is_for else _NO_USER)
        launch = self._launch_key.find_launch(given)
        return _Asker(launch=launch, refusal=self._check_token(scope, given, launch))

    def _check_token(
        self, scope: types.Scope, given: str, launch: tuple[int, str] | None
    ) -> types.ASGIApp | None:
        """Returns the answer to a request whose token is no user's, nor good for what it asks."""
        if launch is not None:
            is_own = self._is_own(scope, launch)
            message = (
                f"The token of launch {launch[1]!r} is for the work of trial {launch[0]} only."
            )
            return None if is_own else _forbid(message)
        for client, (token, name) in self._narrow_tokens.items():
            if token.is_good(given):
                message = f"The token of {name} is for {responses.PREFIX}/{name} only."
                return None if self._is_for(client, scope) else _forbid(message)
        return _NO_TOKEN

    async def _check_role(self, scope: types.Scope, user: str) -> types.ASGIApp | None:
        """Returns the answer to a request that the role of its user does not allow."""
        if user == token_files.OWNER:
            return None
        rule, ids = self._find_rule(scope)
        query = datastructures.QueryParams(scope["query_string"]).multi_items()
        ids += [(name, text) for name, text in query if name in path_rules.IDS]
        problem = await anyio.to_thread.run_sync(self._roles.find_problem, user, rule, ids)
        return None if problem is None else _forbid(problem)

    def _find_user(self, given: str) -> str | None:
        if secrets.compare_digest(given.encode("utf-8", "replace"), self._token):
            return token_files.OWNER
        return self._user_tokens.find_user(given)

    def _take_off_page(self, scope: types.Scope) -> tuple[types.Scope, bool]:
        """Returns a request without the page's own path, and whether it had it."""
        given, slash, rest = scope["path"][1:].partition("/")
        page_path = self._sign_in.sessions.page_path
        if not secrets.compare_digest(given.encode("utf-8", "replace"), page_path.encode()):
            return scope, False
        path = slash + rest
        return {**scope, "path": path, "raw_path": path.encode("utf-8", "replace")}, True

    def _end_with_session(self, scope: types.Scope, send: types.Send) -> types.Send:
        """Returns what sends a long answer, such as events, no longer than its session lasts."""
        has_ended = False

        async def send_or_end(message: types.Message) -> None:
            nonlocal has_ended
            if has_ended:
                return
            if message.get("more_body") and self._sign_in.find_session(scope) is None:
                has_ended = True
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return send_or_end

    def _find_rule(self, scope: types.Scope) -> tuple[path_rules.Rule, list[tuple[str, str]]]:
        return path_rules.find_rule(scope["method"], scope["path"].removeprefix(responses.PREFIX))

    def _find_problem(self, scope: types.Scope) -> types.ASGIApp | None:
        """Returns the answer to a request by cookie that the page would not send."""
        if not sign_in_lib.is_same_site(scope):
            return _forbid("Sec-Fetch-Site: only the page itself may ask; open the address anew.")
        problem = None if scope["method"] in _READS else self._find_origin_problem(scope)
        if problem is None and path_rules.Client.PAGE not in self._find_rule(scope)[0].clients:
            return _forbid("A browser that is signed in may not ask for this; the page never does.")
        return problem

    def _find_origin_problem(self, scope: types.Scope) -> types.ASGIApp | None:
        """Returns the answer to a request of another page that is about to change something."""
        headers = datastructures.Headers(scope=scope)
        origins, host = headers.getlist("origin"), headers.get("host", "")
        # Whether a proxy is asked by HTTPS is not known here.
        is_proxy = host.lower() in self._sign_in.hosts
        schemes = ("http", "https") if is_proxy else (scope["scheme"],)
        if origins in [[f"{scheme}://{host}"] for scheme in schemes]:
            return None
        return _forbid(
            f"Origin: got {', '.join(origins)[:200]!r}, expected "
            f"'{schemes[-1]}://{host}'; only the page itself may change something."
        )

    def _is_for(self, client: path_rules.Client, scope: types.Scope) -> bool:
        """Returns whether an address is below the prefix, and for somebody who is no user."""
        path: str = scope["path"]
        rest = path.removeprefix(responses.PREFIX)
        is_plain = rest != path and not path_rules.has_steps(rest)
        return is_plain and client in path_rules.find_rule(scope["method"], rest)[0].clients

    def _is_own(self, scope: types.Scope, launch: tuple[int, str]) -> bool:
        if not self._is_for(path_rules.Client.LAUNCH, scope):
            return False
        path: str = scope["path"]
        runs = f"{responses.PREFIX}/trials/{launch[0]}/runs"
        return path == runs or path.startswith(f"{runs}/{launch[1]}/")


_NO_TOKEN: Final = responses.to_error(
    "UnauthorizedError",
    "The request carries no token, or none that this master knows. On its machine master.json in "
    "the home directory has one; elsewhere `quintain login` takes what `quintain master token "
    "--user` writes here. `quintain ui` signs a browser in.",
    responses.UNAUTHORIZED,
    {"WWW-Authenticate": "Bearer"},
)


def _forbid(message: str) -> types.ASGIApp:
    return responses.to_error("UnauthorizedError", message, responses.FORBIDDEN)


_NO_USER: Final = _forbid(
    "A user's token is none of an agent: it opens far more than a machine needs. "
    "`quintain master token --agent` prints that of agents."
)


def read_token(scope: types.Scope) -> str | None:
    """Returns the token of a request (HTTP), or None if it names none, not even a wrong one.

    Of several ones, none counts: others on the way may take another one for the right one.
    """
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    text = given[0].decode("latin-1") if len(given) == 1 else ""
    token = text[len(_SCHEME) :] if text[: len(_SCHEME)].lower() == _SCHEME else ""
    return token if given else None
