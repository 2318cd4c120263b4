"""Address of a master, without imports of the client."""

import dataclasses
import ipaddress
import re
import urllib.parse
from typing import Final

from quintain import errors

_ODD: Final = re.compile(r"[^!-~]|\\\\")
_FINGERPRINT: Final = re.compile(r"(?i:sha-?256(?: fingerprint)?[:=])?((?:[0-9a-fA-F]{2}:?){32})")


@dataclasses.dataclass(frozen=True)
class Address:
    """Address of a master."""

    url: str
    """Like `unix:/home/me/.quintain/master.sock`, `http://127.0.0.1:8080` or
    `https://trainer.example.org:8443`."""

    token: str = dataclasses.field(default="", repr=False)
    """What the master recognises its clients by; empty if it does not ask."""

    fingerprint: str = ""
    """SHA-256 of its certificate as 64 hexadecimal digits: the master of `https://` is who shows
    this one, whatever its name. If empty, the authorities that the system knows vouch for it."""


def parse_url(text: str, *, name: str, is_insecure: bool = False, trusts_ports: bool = True) -> str:
    """Returns the address of a master as users give it, for `Address.url`.

    Args:
        text: What was given.
        name: What messages call it, such as `--master`.
        is_insecure: Whether a token may be sent to another machine in plain text.
        trusts_ports: Whether it may be sent so to whoever has a port of this machine.

    Raises:
        ConfigError: If it is no address, or one that would show the token to others.

    Example:
        >>> parse_url("https://Trainer.example.org:8443/", name="--master")
        'https://trainer.example.org:8443'
    """
    expected = "expected the address that `quintain master status` shows, like"
    try:
        parts = urllib.parse.urlsplit(text.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise errors.ConfigError(
            f"{name}: got {text!r} ({error}), {expected} 'https://trainer.example.org:8443'."
        ) from error
    if parts.username is not None or parts.query or parts.fragment:
        raise errors.ConfigError(
            f"{name}: has a user, a query or a fragment, {expected} "
            "'https://trainer.example.org:8443'; a token is given as a file."
        )
    is_odd = _ODD.search(text.strip()) is not None
    if parts.scheme not in ("http", "https") or not host or is_odd:
        raise errors.ConfigError(
            f"{name}: got {text!r}, {expected} 'https://trainer.example.org:8443'."
        )
    if parts.scheme == "http" and not (is_insecure or (trusts_ports and is_loopback(host))):
        raise errors.ConfigError(
            f"{name}: got {text!r}, to which the token would be sent as plain text, whoever reads "
            "it or has the port now; expected 'https://...'. Where you trust all of them "
            "--insecure allows it."
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def parse_fingerprint(text: str, *, name: str) -> str:
    """Returns a fingerprint as users give it, for `Address.fingerprint`.

    Args:
        text: 64 hexadecimal digits, also with colons, as OpenSSL and browsers show them.
        name: What messages call it, such as `--fingerprint`.

    Raises:
        ConfigError: If it is none.

    Example:
        >>> parse_fingerprint("SHA256:" + "AB:" * 31 + "AB", name="--fingerprint")[:8]
        'abababab'
    """
    found = _FINGERPRINT.fullmatch(text.strip())
    if found is None:
        raise errors.ConfigError(
            f"{name}: got {text[:200]!r}, expected the SHA-256 of the master's certificate, 64 "
            "hexadecimal digits; `quintain master status` shows it where the master runs."
        )
    return found[1].replace(":", "").lower()


def is_loopback(host: str) -> bool:
    """Returns whether only this machine is reached by a name or address.

    Example:
        >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "10.0.0.1", "a.org")]
        [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
