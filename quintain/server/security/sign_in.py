"""Browser sign-in: links that are good once, and sessions that they open.

A link holds a code, which the browser hands in for a cookie; see `sessions`.
"""

import contextlib
import hashlib
import math
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Final

from starlette import datastructures, types

from quintain.client.home import token_files
from quintain.server.security import sessions as sessions_lib

CODE_SECS: Final = 600.0
"""How long a code is good, unless its link stays in sight."""

MAX_CODES: Final = 32
"""Most codes of each kind that wait to be used; a new one takes the place of the oldest."""

_LINGER_SECS: Final = 10.0


class Codes:
    """Codes that are good once. Only their digests are kept.

    Args:
        now: Returns seconds, of a clock that never goes back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._waiting: dict[bytes, tuple[float, str]] = {}
        self._lock = threading.Lock()

    def build(self, *, stays: bool = False, user: str = token_files.OWNER) -> str:
        """Returns a new code.

        Args:
            stays: Whether it is good until it is used, however long that takes.
            user: Whose it is.
        """
        code = secrets.token_urlsafe(24)
        with self._lock:
            self._waiting = {
                digest: (end, whose)
                for digest, (end, whose) in self._waiting.items()
                if end > self._now()
            }
            alike = [
                digest for digest, (end, _) in self._waiting.items() if stays == math.isinf(end)
            ]
            for digest in alike[: max(len(alike) - MAX_CODES + 1, 0)]:
                del self._waiting[digest]
            self._waiting[_digest(code)] = math.inf if stays else self._now() + CODE_SECS, user
        return code

    def use(self, code: str) -> str | None:
        """Returns whose code it is, or None if it is not good; it is no more afterwards."""
        given = _digest(code)
        with self._lock:
            for digest in list(self._waiting):
                if secrets.compare_digest(digest, given):
                    end, user = self._waiting.pop(digest)
                    return user if end > self._now() else None
        return None


class SignIn:
    """Links to the page, and the sessions of browsers that have opened one.

    Args:
        url: Address of the master.
        sessions: Knows cookies.
        hosts: Names of proxies under which browsers ask; see `request_checks.parse_host`.
        own_hosts: Names under which the master itself is reached from other machines.

    Attributes:
        is_wanted: True once a browser has shown the page, or somebody has asked for a link.
    """

    def __init__(
        self,
        url: str,
        sessions: sessions_lib.Sessions,
        *,
        hosts: Collection[str] = (),
        own_hosts: Collection[str] = (),
    ) -> None:
        self._url = url
        self._own_hosts = frozenset(own_hosts)
        self.hosts = frozenset(hosts)
        self.codes = Codes()
        self.sessions = sessions
        self.is_wanted = False
        self._num_open = 0
        self._last_secs = -math.inf

    def build_link(self, *, stays: bool = False, user: str = token_files.OWNER) -> str:
        """Returns a link that opens the page once.

        Args:
            stays: Whether it is good until it is used, for links that stay in sight. These nobody
                has asked for.
            user: Who will be signed in.
        """
        self.is_wanted = self.is_wanted or not stays
        code = self.codes.build(stays=stays, user=user)
        return f"{self._url}/{self.sessions.page_path}/sign-in?code={code}"

    def find_session(self, scope: types.Scope) -> str | None:
        """Returns the name of the session whose cookie a request carries, or None.

        Others may have set cookies of the same name; they don't hide a good one.
        """
        name = self.sessions.cookie_name
        for header, value in scope["headers"]:
            if header == b"cookie":
                for part in value.decode("latin-1").split(";"):
                    key, _, cookie = part.strip().partition("=")
                    found = self.sessions.find(cookie) if key == name else None
                    if found is not None:
                        return found
        return None

    @property
    def all_hosts(self) -> frozenset[str]:
        """All names besides those that every machine has for itself."""
        return self.hosts | self._own_hosts

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Notes that the page is asking for something."""
        self.is_wanted = True
        self._num_open += 1
        try:
            yield
        finally:
            self._num_open -= 1
            self._last_secs = time.monotonic()

    @property
    def is_page_open(self) -> bool:
        """True if somebody has the page open, as far as can be told."""
        return self._num_open > 0 or time.monotonic() - self._last_secs < _LINGER_SECS


def is_same_site(scope: types.Scope) -> bool:
    """Returns whether a browser says that a request is the user's own, or one of our own page.

    Old browsers, and programs, say nothing.
    """
    return _read(scope, "sec-fetch-site") in ("", "same-origin", "none")


def _read(scope: types.Scope, name: str) -> str:
    return datastructures.Headers(scope=scope).get(name, "").lower()


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
