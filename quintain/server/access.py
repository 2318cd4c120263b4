"""Who may ask a master for what: its user for everything, a trial's process for its own work."""

import secrets
from typing import Final

from starlette import types

from quintain.scheduler import launch_tokens
from quintain.server import responses
from quintain.web import connections

LAUNCH: Final = "launch"
"""Name in the state of a request (`scope["state"]`): the (trial, launch) whose token it carries."""

_SCHEME: Final = "bearer "


class TokenCheck:
    """Turns away requests that do not carry a token, or not one for what they ask.

    The user's token opens everything. The token of a launch opens the addresses of this launch,
    and nothing else.
    """

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        token: str,
        launch_key: launch_tokens.LaunchKey,
        prefix: str,
    ) -> None:
        """Stores its settings.

        Args:
            app: What answers.
            token: The user's token.
            launch_key: Knows the tokens of launches.
            prefix: What the paths of all addresses begin with.
        """
        self._app = app
        self._token = token.encode()
        self._launch_key = launch_key
        self._prefix = prefix

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Handles a request as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _read_token(scope)
        launch = self._launch_key.find_launch(given)
        app = self._app
        if launch is not None:
            if not self._is_own(scope["path"], launch):
                app = responses.to_error(
                    "UnauthorizedError",
                    f"The token of launch {launch[1]!r} is for the work of trial {launch[0]} only.",
                    responses.FORBIDDEN,
                )
        elif not secrets.compare_digest(given.encode(), self._token):
            app = responses.to_error(
                "UnauthorizedError",
                "The request carries no token, or not that of this master; master.json in the home "
                "directory has it.",
                responses.UNAUTHORIZED,
                {"WWW-Authenticate": "Bearer"},
            )
        state = {**scope.get("state", {}), LAUNCH: launch}
        if app is self._app:
            state[connections.KNOWN] = True
        # In place: the connection looks at it, too.
        scope.setdefault("state", {}).update(state)
        await app(scope, receive, send)

    def _is_own(self, path: str, launch: tuple[int, str]) -> bool:
        runs = f"{self._prefix}/trials/{launch[0]}/runs"
        return path == runs or path.startswith(f"{runs}/{launch[1]}/")


def _read_token(scope: types.Scope) -> str:
    text = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    return text[len(_SCHEME) :] if text[: len(_SCHEME)].lower() == _SCHEME else ""
