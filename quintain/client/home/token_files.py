"""Files that hold a token: of agents, of Prometheus servers, and of users of other machines.

A master knows agents, Prometheus, and users who are not at its machine, by tokens that outlive it,
each in a file of the home directory. Whoever is to have one gets a copy of the file. One that
somebody has seen who should not have is renewed; the running master takes the new one at once.
Each user may have a token of their own, with their name.
"""

import pathlib
import re
import secrets
from typing import Final

from quintain import errors
from quintain.files import atomic_write

OWNER: Final = "owner"
"""Name of the user whose home directory it is; nobody else may have it."""

_TOKEN: Final = re.compile(r"[!-~]{8,4096}")
_RANDOM_BYTES: Final = 32
_RANDOM_CHARS: Final = 43
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


def check_name(name: str, *, where: str) -> str:
    """Returns the name of a user.

    Args:
        name: The name.
        where: What messages call it, such as `--user`.

    Raises:
        ConfigError: If nobody may be called so.
    """
    if not _NAME.fullmatch(name) or name.lower() == OWNER:
        raise errors.ConfigError(
            f"{where}: got {errors.show(name)}, expected at most 64 letters, digits or any of "
            f"`._@+-`, beginning with a letter or digit, and not {OWNER!r}."
        )
    return name


def load(path: pathlib.Path, whose: str = "") -> str:
    """Returns the token of a file of the home directory, which is made if there is none.

    Args:
        path: `Home.agent_token`, `Home.metrics_token`, or that of a user.
        whose: The option of `quintain master token`, if it is not the file's name.

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
            f"--{whose or path.stem} --renew`, which those who have the former one need then."
        ) from error


def renew(path: pathlib.Path) -> str:
    """Puts a new token in the place of the one that is there, and returns it."""
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


class UserTokens:
    """Tokens of users, each with a name.

    Args:
        owner: The file of the owner's, which carries no name.
        directory: Has a file for each other user.
    """

    def __init__(self, owner: pathlib.Path, directory: pathlib.Path) -> None:
        self._owner = KnownToken(owner)
        self._owner_path = owner
        self._directory = directory

    def list_names(self) -> list[str]:
        """Returns the names of those who have a token."""
        names = [OWNER] if self._owner_path.exists() else []
        return names + sorted(path.stem for path in self._directory.glob("*.token"))

    def get_path(self, name: str) -> pathlib.Path:
        """Returns the file of a user's token, whether it is there or not.

        Raises:
            ConfigError: If nobody may be called so.
        """
        if name == OWNER:
            return self._owner_path
        return self._directory / f"{check_name(name, where='user')}.token"

    def load(self, name: str, *, is_new: bool = False) -> str:
        """Returns the token of a user, which is made if there is none, or if it is to be new."""
        path = self.get_path(name)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return renew(path) if is_new else load(path, f"user {name}")

    def revoke(self, name: str) -> None:
        """Deletes the token of a user.

        Raises:
            NotFoundError: If there is none.
        """
        try:
            self.get_path(name).unlink()
        except FileNotFoundError as error:
            raise errors.NotFoundError(
                f"There is no token of user {errors.show(name)}; expected one of "
                f"{', '.join(self.list_names()) or 'none'}."
            ) from error

    def read(self, name: str) -> str | None:
        """Returns the token of a user, or None if there is none."""
        try:
            return read(self.get_path(name), name=name)
        except errors.ConfigError:
            return None

    def find_user(self, given: str) -> str | None:
        """Returns whose token somebody has, or None if it is nobody's (any more)."""
        if self._owner.is_good(given):
            return OWNER
        name = given[: -_RANDOM_CHARS - 1]
        known = self.read(name) if _NAME.fullmatch(name) else None
        is_good = secrets.compare_digest(given.encode("utf-8", "replace"), (known or "").encode())
        return name if known and is_good else None
