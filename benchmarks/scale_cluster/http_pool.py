"""A small HTTP/1.1 client for thousands of pretended processes: one connection each, kept open."""

import asyncio
import json
import urllib.parse
from typing import Any


class Client:
    """One kept connection to a master, opened when it is needed.

    Args:
        url: Address of the master, `http://HOST:PORT`.
        token: What it is asked with.
        address: Address to connect from, of the loopback device: each machine has its own.
    """

    def __init__(self, url: str, token: str, address: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Sends a request, again where the connection broke, and returns status and answer."""
        data = b"" if body is None else json.dumps(body).encode()
        text = f"{method} {path} HTTP/1.1\r\n{self._head}"
        text += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        while True:
            try:
                return await self._try(text.encode() + data)
            except (OSError, asyncio.IncompleteReadError):
                self.close()
                await asyncio.sleep(1.0)

    async def _try(self, request: bytes) -> tuple[int, Any]:
        # As urllib3 does, which real processes use: it looks whether a kept connection was closed.
        if self._streams is not None and self._streams[0].at_eof():
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                self._host, self._port, local_addr=(self._address, 0)
            )
        reader, writer = self._streams
        writer.write(request)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = int(head.split(" ", 2)[1])
        length = 0
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
            elif name.lower() == "connection" and value.strip() == "close":
                self._streams = None
        answer = await reader.readexactly(length)
        return status, json.loads(answer) if answer else None

    def close(self) -> None:
        """Closes the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
