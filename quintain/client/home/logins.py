"""Masters of other machines: which one the commands of this home directory ask, if any.

`quintain login` notes it in the home directory. Variables do the same for one shell, or where
nothing may be written; they go before what is noted:

| variable | content |
|---|---|
| `QUINTAIN_MASTER_URL` | address of the master |
| `QUINTAIN_MASTER_TOKEN_FILE` | file with a user's token, as `quintain master token` writes it |
| `QUINTAIN_MASTER_FINGERPRINT` | SHA-256 of its certificate; without it authorities vouch for it |
"""

import dataclasses
import json
import os
import pathlib
from typing import Final

from quintain import errors
from quintain.client import address as address_lib
from quintain.files import atomic_write, disk_errors

FILE_NAME: Final = "login.json"
URL_VARIABLE: Final = "QUINTAIN_MASTER_URL"
TOKEN_VARIABLE: Final = "QUINTAIN_MASTER_TOKEN_FILE"
FINGERPRINT_VARIABLE: Final = "QUINTAIN_MASTER_FINGERPRINT"


@dataclasses.dataclass(frozen=True)
class Login:
    """The master of another machine that commands ask."""

    address: address_lib.Address
    """Where it is, and what it knows its user by."""

    origin: str
    """What says so: a file or a variable."""

    @property
    def token_origin(self) -> str:
        """Source of the token: a file or a variable."""
        return TOKEN_VARIABLE if self.origin == URL_VARIABLE else self.origin

    @property
    def name(self) -> str:
        """Name of the master in messages."""
        return self.address.url


def find(home: pathlib.Path) -> Login | None:
    """Returns the master of another machine that commands ask, or None.

    Raises:
        ConfigError: If the variables, or what was noted, can't be used.
    """
    url = os.environ.get(URL_VARIABLE, "")
    if url:
        return _read_variables(url)
    for name in (TOKEN_VARIABLE, FINGERPRINT_VARIABLE):
        if os.environ.get(name):
            raise errors.ConfigError(f"{name}: is set without {URL_VARIABLE}.")
    path = home / FILE_NAME
    try:
        content = disk_errors.read_json(path)
        found = address_lib.Address(*(str(content[it]) for it in ("url", "token", "fingerprint")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if disk_errors.is_transient(error):
            raise  # What is there can't be seen; nothing is to be written anew.
        raise errors.ConfigError(
            f"{path}: can't be read ({error}); `quintain login` writes it anew."
        ) from error
    return Login(found, str(path))


def write(home: pathlib.Path, address: address_lib.Address) -> None:
    """Notes which master the commands of a home directory ask, readable by its owner only."""
    text = json.dumps(dataclasses.asdict(address), indent=2)
    atomic_write.write_atomically(home / FILE_NAME, text, mode=0o600)


def remove(home: pathlib.Path) -> bool:
    """Makes commands ask the master of the home directory again; returns whether they did not."""
    path = home / FILE_NAME
    is_there = path.exists()
    path.unlink(missing_ok=True)
    return is_there


def check_own(home: pathlib.Path, command: str) -> None:
    """Refuses what needs the home directory of the master itself.

    Raises:
        ConfigError: If commands ask the master of another machine.
    """
    found = find(home)
    if found is not None:
        raise errors.ConfigError(
            f"{command}: needs the home directory of a master, but commands here ask {found.name} "
            f"({found.origin}). Run it where that master runs; or for a master of this machine "
            f"{_explain_end(found)}."
        )


def _read_variables(url: str) -> Login:
    from quintain.client.home import token_files  # noqa: PLC0415 - few shells name a master

    token_file = os.environ.get(TOKEN_VARIABLE, "")
    if not token_file:
        raise errors.ConfigError(
            f"{TOKEN_VARIABLE}: missing, but {URL_VARIABLE} is set; expected a file with the "
            "token of a user, which `quintain master token --user` writes where the master runs."
        )
    fingerprint = os.environ.get(FINGERPRINT_VARIABLE, "")
    address = address_lib.Address(
        address_lib.parse_url(url, name=URL_VARIABLE, trusts_ports=False),
        token_files.read(token_file, name=TOKEN_VARIABLE),
        address_lib.parse_fingerprint(fingerprint, name=FINGERPRINT_VARIABLE)
        if fingerprint
        else "",
    )
    return Login(address, URL_VARIABLE)


def _explain_end(found: Login) -> str:
    if found.origin == URL_VARIABLE:
        return f"unset {URL_VARIABLE}"
    return "run `quintain logout`, or set QUINTAIN_HOME to another directory"
