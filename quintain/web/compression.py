"""Answers in fewer bytes for those who say that they can read them."""

import gzip
import re
from collections.abc import Collection
from typing import Final

import anyio
from starlette import types as asgi

LEVEL: Final = 1
"""Pages are mostly on the same machine, where time counts more than bytes."""

_MIN_BYTES: Final = 1024
_INLINE_BYTES: Final = 32 * 1024
_ACCEPTS: Final = re.compile(rb"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")


class Compression:
    """Stands before an app: compresses answers of some types that come in one piece."""

    def __init__(self, app: asgi.ASGIApp, *, types: Collection[str]) -> None:
        """Stores its settings.

        Args:
            app: What answers.
            types: Media types to compress, such as `application/json`.
        """
        self._app = app
        self._types = frozenset(name.encode() for name in types)

    async def __call__(
        self,
        scope: asgi.Scope,
        receive: asgi.Receive,
        send: asgi.Send,
    ) -> None:
        """Handles a request as ASGI has it."""
        if scope["type"] == "http":
            accepts = b",".join(v for name, v in scope["headers"] if name == b"accept-encoding")
            send = _Sender(send, self._types, accepts=_ACCEPTS.search(accepts) is not None)
        await self._app(scope, receive, send)


class _Sender:
    """Holds the head of an answer back until it is known how large the answer is."""

    def __init__(self, send: asgi.Send, types: Collection[bytes], *, accepts: bool) -> None:
        self._send = send
        self._types = types
        self._accepts = accepts
        self._head: asgi.Message | None = None

    async def __call__(self, message: asgi.Message) -> None:
        if message["type"] == "http.response.start" and self._is_of_type(message["headers"]):
            self._head = message
            return
        if self._head is not None:
            head, self._head = self._head, None
            head["headers"] = [*head["headers"], (b"vary", b"Accept-Encoding")]
            body = message.get("body", b"")
            if self._accepts and len(body) >= _MIN_BYTES and not message.get("more_body", False):
                body = await _compress(body)
                message = {**message, "body": body}
                kept = [pair for pair in head["headers"] if pair[0] != b"content-length"]
                length = (b"content-length", str(len(body)).encode())
                head["headers"] = [*kept, (b"content-encoding", b"gzip"), length]
            await self._send(head)
        await self._send(message)

    def _is_of_type(self, headers: Collection[tuple[bytes, bytes]]) -> bool:
        fields = dict(headers)
        media_type = fields.get(b"content-type", b"").partition(b";")[0].strip()
        return media_type in self._types and b"content-encoding" not in fields


async def _compress(body: bytes) -> bytes:
    if len(body) <= _INLINE_BYTES:
        return gzip.compress(body, LEVEL, mtime=0)
    return await anyio.to_thread.run_sync(lambda: gzip.compress(body, LEVEL, mtime=0))
