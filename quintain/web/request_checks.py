"""Turns away requests that a user of this server did not mean to send.

A web page that a user visits can make their browser send requests to any address, this one
included. The browser says what it takes for the name of the server (`Host`) and, unless it only
fetches something, where the page came from (`Origin`). A page under a foreign name that resolves
to this machine gives that name as its host; a page of another site gives its own origin. Programs
such as curl give no origin, and are not refused for that.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Any, Final

import anyio
from starlette import types as asgi

from quintain import errors
from quintain.web import json_bodies

MISDIRECTED: Final = 421
"""Status of an answer to who asked for a server of another name. It says nothing about who asks."""

JSON: Final = "application/json"
UNNAMED: Final = ""
"""Bodies without any type, which browsers send with their origin as well."""

FORM: Final = "application/x-www-form-urlencoded"
"""What `curl -d` calls its data. A page can send it without being asked for leave, but not without
its origin, so that it is safe to take it for JSON once the origin is checked."""

_LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_ALLOWED_NAME: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_MAX_ADDRESS_BYTES: Final = 16 * 1024
_CHECKED_INLINE_BYTES: Final = 64 * 1024

_VALUE: Final = "body_value"
_LEAVE: Final = "leave_parsing_room"

_MOST_FIELDS: Final = 100
"""Most fields of a request; none needs as many."""

_BUSY: Final = (503, "Too many large requests are worked on. Try again later.")

Refuse = Callable[[int, str], asgi.ASGIApp]
"""Builds the answer with a status and a message."""


def parse_host(text: str) -> str:
    """Returns a name under which a server may be asked, as it is compared.

    Args:
        text: Name or address, with the port if clients give one.

    Raises:
        ConfigError: If it is none.

    Example:
        >>> parse_host("Example.org:8501")
        'example.org:8501'
    """
    if not _ALLOWED_NAME.fullmatch(text):
        raise errors.ConfigError(
            f"--allowed-host: got {text!r}, expected a name as in a web address, with its port if "
            "the address has one, like 'translate.example.org' or 'localhost:9000'."
        )
    return text.lower()


class HostCheck:
    """Stands before an app: checks what requests take for the name of the server, and addresses.

    Args:
        app: What answers.
        refuse: Builds the answers of this class.
        hosts: Names besides those of the machine itself; see `parse_host`.
    """

    def __init__(self, app: asgi.ASGIApp, *, refuse: Refuse, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._refuse = refuse
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Handles a request as ASGI has it."""
        problem = self._find_problem(scope) if scope["type"] == "http" else None
        app = self._app if problem is None else self._refuse(*problem)
        has_two_ends = scope["type"] == "http" and _has_two_ends(scope)
        await app(scope, receive, _closing(send) if has_two_ends else send)

    def _find_problem(self, scope: asgi.Scope) -> tuple[int, str] | None:
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return 400, "The address holds a NUL."
        if len(scope["path"]) + len(scope["query_string"]) > _MAX_ADDRESS_BYTES:
            return 414, f"The address is longer than {_MAX_ADDRESS_BYTES:,} bytes."
        if _has_two_ends(scope):
            return 400, "Got Transfer-Encoding together with Content-Length, expected one of them."
        server = scope.get("server")
        if server is None or server[1] is None:
            return None  # A Unix socket, which browsers can't reach.
        hosts = _read(scope, b"host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        allowed = self._list_allowed(*server)
        if host not in allowed:
            return MISDIRECTED, (
                f"Host: got {', '.join(hosts)[:200]!r}, which is not this server; expected one of "
                f"{', '.join(sorted(allowed))}. --allowed-host names another one to the server."
            )
        for origin in _read(scope, b"origin"):
            if origin.lower().partition("://")[2] != host:
                return 403, f"Origin: got {origin[:200]!r}; pages of other sites may not ask."
        return None

    def _list_allowed(self, address: str, port: int) -> set[str]:
        address = address.removeprefix("::ffff:")  # IPv4 on a socket of IPv6.
        own = f"[{address}]" if ":" in address else address
        names = {*_LOCAL_NAMES, own.lower()}
        allowed = {f"{name}:{port}" for name in names} | self._hosts
        return allowed | names if port == 80 else allowed


class ParsingRoom:
    """Limits the bytes of bodies that are Python objects at a time; others wait in line.

    As Python objects a body takes up to forty times its bytes, so that a few large ones that are
    parsed at once can take all memory.

    Args:
        max_bytes: Most bytes of all bodies in it; a larger body is in it alone.
        patience_secs: For so long a body waits to come in.
    """

    def __init__(self, max_bytes: int, *, patience_secs: float) -> None:
        self._max_bytes = max_bytes
        self._patience_secs = patience_secs
        self._num_bytes = 0
        self._line = asyncio.Lock()
        self._has_left = asyncio.Event()

    async def enter(self, num_bytes: int) -> bool:
        """Waits until there is room for a body, and returns whether it came in."""
        try:
            async with asyncio.timeout(self._patience_secs), self._line:
                while self._num_bytes and self._num_bytes + num_bytes > self._max_bytes:
                    self._has_left.clear()
                    await self._has_left.wait()
        except TimeoutError:
            return False
        self._num_bytes += num_bytes
        return True

    def leave(self, num_bytes: int) -> None:
        """Makes room for others."""
        self._num_bytes -= num_bytes
        self._has_left.set()


def take_json(scope: asgi.Scope) -> Any:
    """Returns what the body of a request says, once; None without a body."""
    return scope.pop(_VALUE, None)


def leave_room(scope: asgi.Scope) -> None:
    """Lets another body in, because nothing is left of the value of this one."""
    leave: Callable[[], None] | None = scope.get(_LEAVE)
    if leave is not None:
        leave()


class BodyCheck:
    """Stands before an app: checks type, size and content of bodies before the app sees them.

    Args:
        app: What answers.
        refuse: Builds the answers of this class.
        find_max_bytes: Returns the largest body of a request.
        max_held_bytes: Most bytes of all bodies that are read or worked on at a time.
        types: What may be taken for JSON.
        is_stream: Whether the app reads the body of a request as it comes in, and limits it.
        room: Where bodies are until the answer begins, or until the app calls `leave_room`, and
            which the app gets by `take_json` only. If None, all are let in.
    """

    def __init__(
        self,
        app: asgi.ASGIApp,
        *,
        refuse: Refuse,
        find_max_bytes: Callable[[asgi.Scope], int],
        max_held_bytes: int,
        types: Collection[str] = (JSON,),
        is_stream: Callable[[asgi.Scope], bool] = lambda _: False,
        room: ParsingRoom | None = None,
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._find_max_bytes = find_max_bytes
        self._max_held_bytes = max_held_bytes
        self._types = frozenset(types)
        self._num_held_bytes = 0
        self._is_stream = is_stream
        self._room = room

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Handles a request as ASGI has it."""
        if scope["type"] != "http" or not has_body(scope) or self._is_stream(scope):
            await self._app(scope, receive, send)
            return
        body = bytearray()
        try:
            problem = self._check_head(scope) or await self._read_body(scope, receive, body)
            if problem is None and self._room is not None:
                problem = await self._pass_through(self._room, scope, body, receive, send)
            elif problem is None:
                content = bytes(body)
                value, problem = await _parse(content)
                if problem is None:
                    inner = {**_say_json(scope), _VALUE: value}
                    del value
                    await self._app(inner, _Replay(content, receive), send)
            if problem is not None:
                await self._refuse(*problem)(scope, receive, send)
        finally:
            self._num_held_bytes -= len(body)

    async def _pass_through(
        self,
        room: ParsingRoom,
        scope: asgi.Scope,
        body: bytearray,
        receive: asgi.Receive,
        send: asgi.Send,
    ) -> tuple[int, str] | None:
        """Parses a body and has it answered; returns what is wrong with it."""
        num_bytes = len(body)
        if not await room.enter(num_bytes):
            return _BUSY

        def leave() -> None:
            nonlocal num_bytes
            room.leave(num_bytes)
            num_bytes = 0

        async def send_outside(message: asgi.Message) -> None:
            leave()  # However slowly the client reads its answer.
            await send(message)

        try:
            value, problem = await _parse(body)
            if problem is None:
                inner = {**_say_json(scope), _VALUE: value, _LEAVE: leave}
                del value
                await self._app(inner, _Replay(b"", receive), send_outside)
            return problem
        finally:
            leave()

    def _check_head(self, scope: asgi.Scope) -> tuple[int, str] | None:
        given = ", ".join(_read(scope, b"content-type"))
        if given.partition(";")[0].strip().lower() not in self._types:
            return 415, f"Content-Type: got {given[:200]!r}, expected {JSON!r}."
        length = "".join(_read(scope, b"content-length"))
        # h11 has checked that it is a number of at most 20 digits.
        if length and int(length) > self._find_max_bytes(scope):
            return self._say_too_large(scope)
        return None

    async def _read_body(
        self, scope: asgi.Scope, receive: asgi.Receive, body: bytearray
    ) -> tuple[int, str] | None:
        is_complete = False
        while not is_complete:
            message = await receive()
            if message["type"] == "http.disconnect":
                return 400, "The request is not complete."
            piece = message.get("body", b"")
            if len(body) + len(piece) > self._find_max_bytes(scope):
                return self._say_too_large(scope)
            if self._num_held_bytes + len(piece) > self._max_held_bytes:
                return _BUSY
            body += piece
            self._num_held_bytes += len(piece)
            is_complete = not message.get("more_body", False)
        return None

    def _say_too_large(self, scope: asgi.Scope) -> tuple[int, str]:
        return 413, f"the request is larger than {self._find_max_bytes(scope):,} bytes."


class _Replay:
    """Gives an app a body that was read before it."""

    def __init__(self, body: bytes, receive: asgi.Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> asgi.Message:
        body, self._body = self._body, None
        if body is None:
            return await self._receive()
        return {"type": "http.request", "body": body, "more_body": False}


async def _parse(body: bytes | bytearray) -> tuple[Any, tuple[int, str] | None]:
    """Returns what a body says, and what is wrong with it."""
    try:
        if len(body) <= _CHECKED_INLINE_BYTES:
            return _read_json(body), None
        return await anyio.to_thread.run_sync(_read_json, body), None
    except errors.DataError as error:
        return None, (400, str(error))


def _read_json(body: bytes | bytearray) -> Any:
    value = json_bodies.parse(body)
    # Apps list all fields that they do not know, which takes a minute where there are millions.
    if isinstance(value, dict) and len(value) > _MOST_FIELDS:
        raise errors.DataError(
            f"body: has {len(value):,} fields, expected at most {_MOST_FIELDS:,}."
        )
    return value


def _has_two_ends(scope: asgi.Scope) -> bool:
    """Returns whether a proxy may take something else for the end of a request than this server.

    What comes next on the connection may be one for it, and the rest of this one for the proxy.
    """
    return bool(_read(scope, b"transfer-encoding") and _read(scope, b"content-length"))


def _closing(send: asgi.Send) -> asgi.Send:
    """Returns what sends an answer and closes the connection: nothing more is read from it."""

    async def send_last(message: asgi.Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return send_last


def has_body(scope: asgi.Scope) -> bool:
    """Returns whether a request announces a body."""
    length = "".join(_read(scope, b"content-length"))
    return length not in ("", "0") or bool(_read(scope, b"transfer-encoding"))


def _read(scope: asgi.Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for given, value in scope["headers"] if given == name]


def _say_json(scope: asgi.Scope) -> asgi.Scope:
    headers = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
    return {**scope, "headers": [*headers, (b"content-type", JSON.encode())]}
