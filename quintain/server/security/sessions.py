"""Cookies by which a browser shows that its user has signed in.

A cookie is made of a number of its own, the time until which it is good, and a seal over both by a
key that stays in the home directory. So it outlives a restart of the master, and nothing is stored
for it. Those that were ended by signing out are noted until they would have expired. The seal of a
user other than the owner also covers their token, so that the cookie ends with it.

Browsers send a cookie to every port of a machine. Those of other users of the machine must not get
it: the page is found below a path that only this key gives, and the cookie is good for that path
only, so that it is sent to nobody who does not know the path. A cookie is also good for one port.
"""

import hashlib
import hmac
import pathlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Self

from quintain.client.home import home as home_lib
from quintain.client.home import token_files

LIFETIME_SECS: Final = 30 * 24 * 3600
"""How long a cookie is good."""

_KEY_BYTES: Final = 32
_PATH_BYTES: Final = 10
_MAX_ENDED: Final = 1000


class Sessions:
    """Makes, knows and ends cookies.

    Args:
        port: The port that cookies are good for.
        path: Where to keep the key; only this object has it if None.
        now: Returns seconds since the epoch.
        read_token: Returns the token of a user, or None if they have none (any more).

    Example:
        >>> sessions = Sessions(port=8080)
        >>> cookie = sessions.begin()
        >>> found = sessions.find(cookie)
        >>> sessions.end(found)
        >>> sessions.find(cookie) is None
        True
    """

    def __init__(
        self,
        *,
        port: int,
        path: pathlib.Path | None = None,
        now: Callable[[], float] = time.time,
        read_token: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._port = port
        self._read_token = read_token
        self._path = path
        self._now = now
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._ended: dict[str, int] = {}
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls,
        path: pathlib.Path,
        *,
        port: int,
        read_token: Callable[[str], str | None] = lambda _: None,
    ) -> Self:
        """Returns those whose key a file holds; it is written with a new one if it holds none.

        Cookies for another port than that of last time are ended: whoever has had it since may
        have been sent some.
        """
        sessions = cls(port=port, path=path, read_token=read_token)
        content = home_lib.read_own(path)
        try:
            if content["port"] == port:
                sessions._restore(content)
        except (ValueError, TypeError, KeyError, AttributeError):
            pass  # Everybody signs in again.
        sessions._save()
        return sessions

    @property
    def cookie_name(self) -> str:
        """Name of the cookie. Masters of one machine share its cookies, but no port."""
        return f"quintain-session-{self._port}"

    @property
    def page_path(self) -> str:
        """The part of the page's address that nobody can guess."""
        return self._seal("page")[: 2 * _PATH_BYTES]

    def begin(self, user: str = token_files.OWNER) -> str:
        """Returns a new cookie of a user."""
        whose = "" if user == token_files.OWNER else f"-{user.replace('.', '~')}"
        name = f"{secrets.token_hex(8)}{whose}.{int(self._now()) + LIFETIME_SECS}"
        return f"{name}.{self._seal_name(name)}"

    def find(self, cookie: str) -> str | None:
        """Returns the name of a session, or None if a cookie is not good (any more)."""
        name, _, seal = cookie.rpartition(".")
        expected = self._seal_name(name)
        if expected is None or not hmac.compare_digest(
            expected.encode(), seal.encode("utf-8", "replace")
        ):
            return None
        number, _, end_text = name.partition(".")
        return None if self._now() >= int(end_text) or number in self._ended else name

    @staticmethod
    def find_user(name: str) -> str:
        """Returns whose session it is.

        Args:
            name: What `find` gave.
        """
        whose = name.partition(".")[0].partition("-")[2]
        return whose.replace("~", ".") or token_files.OWNER

    def end(self, name: str) -> None:
        """Ends one session.

        Args:
            name: What `find` gave.
        """
        number, _, end_text = name.partition(".")
        with self._lock:
            self._ended = {
                one: end_secs for one, end_secs in self._ended.items() if end_secs > self._now()
            }
            self._ended[number] = int(end_text)
            is_full = len(self._ended) > _MAX_ENDED
            self._save()
        if is_full:
            self.end_all()

    def end_all(self) -> None:
        """Ends all sessions by taking a new key."""
        with self._lock:
            self._key, self._ended = secrets.token_bytes(_KEY_BYTES), {}
            self._save()

    def _restore(self, content: Any) -> None:
        key = bytes.fromhex(content["key"])
        ended = {str(one): int(end_secs) for one, end_secs in content["ended"].items()}
        if len(key) == _KEY_BYTES:
            self._key, self._ended = key, ended

    def _save(self) -> None:
        if self._path is not None:
            content = {"port": self._port, "key": self._key.hex(), "ended": self._ended}
            home_lib.write_private(self._path, content)

    def _seal_name(self, name: str) -> str | None:
        user = self.find_user(name)
        token = "" if user == token_files.OWNER else self._read_token(user)
        return None if token is None else self._seal(f"{self._port}.{name}{token and '.'}{token}")

    def _seal(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
