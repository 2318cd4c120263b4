"""Files that hold a token: of agents, of Prometheus servers, and of users of other machines.

A master knows agents, Prometheus, and users who are not at its machine, by tokens that outlive it,
each in a file of the home directory. Whoever is to have one gets a copy of the file. One that
somebody has seen who should not have is renewed; the running master takes the new one at once.
"""

import pathlib
import re
import secrets
from typing import Final

from quintain import errors
from quintain.files import atomic_write

_TOKEN: Final = re.compile(r"[!-~]{8,4096}")
_RANDOM_BYTES: Final = 32


def load(path: pathlib.Path) -> str:
    """Returns the token of a file of the home directory, which is made if there is none.

    Args:
        path: `Home.agent_token`, `Home.metrics_token` or `Home.user_token`.

    Raises:
        ConfigError: If the file holds something else.
    """
    if not path.exists():
        return renew(path)
    try:
        return read(path, name=path.name)
    except errors.ConfigError as error:
        raise errors.ConfigError(
            f"{error} Put a copy of it back; or make a new one by `quintain master token "
            f"--{path.stem} --renew`, which those who have the former one need then."
        ) from error


def renew(path: pathlib.Path) -> str:
    """Puts a new token in the place of the one that is there, and returns it.

    Args:
        path: `Home.agent_token`, `Home.metrics_token` or `Home.user_token`.
    """
    token = f"{path.stem}-{secrets.token_urlsafe(_RANDOM_BYTES)}"
    write(path, token)
    return token


def write(path: pathlib.Path, token: str) -> None:
    """Writes a token to a file that only its owner can read."""
    atomic_write.write_atomically(path, f"{token}\n", mode=0o600)


def read(path: str | pathlib.Path, *, name: str) -> str:
    """Returns the token of a file.

    Args:
        path: The file.
        name: What messages call it, such as `--token-file`.

    Raises:
        ConfigError: If it can't be read, or holds no token.
    """
    try:
        text = pathlib.Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds more than a token"
        raise errors.ConfigError(
            f"{name}: {str(path)!r} can't be read ({reason}); expected a file with a token, as "
            "`quintain master token` writes it."
        ) from error
    if not _TOKEN.fullmatch(text):
        # What it holds may be a secret all the same.
        raise errors.ConfigError(
            f"{name}: {str(path)!r} does not hold one token; expected a file as `quintain master "
            "token` writes it."
        )
    return text


class KnownToken:
    """The token of a file that may be renewed at any time, for those who check it.

    Args:
        path: The file. Nobody has a token as long as it is missing.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._token: bytes | None = None

    def is_good(self, given: str) -> bool:
        """Returns whether somebody has the token."""
        try:
            found = self._path.stat()
            mark = found.st_ino, found.st_mtime_ns, found.st_size
            if mark != self._mark:
                self._token = read(self._path, name=str(self._path)).encode()
                self._mark = mark
        except (OSError, errors.ConfigError):
            return False
        return self._token is not None and secrets.compare_digest(
            given.encode("utf-8", "replace"), self._token
        )
