"""Listening address and TLS identity of a master."""

import contextlib
import dataclasses
import ipaddress
import socket
import ssl
from collections.abc import Iterator

from quintain import errors
from quintain.client import address
from quintain.client.home import home as home_lib
from quintain.server.http import certificates
from quintain.web import http_server


@dataclasses.dataclass(frozen=True)
class Network:
    """TCP settings of a master: loopback only by default."""

    host: str = http_server.HOST
    """Address of this machine on which it listens; 0.0.0.0 for all."""

    use_tls: bool = False
    """Whether it speaks TLS on the loopback device, too. Elsewhere it does."""

    certificate: str = ""
    """File with its certificate; one of its own making if empty. It speaks TLS if there is one."""

    key: str = ""
    """File with the key of the certificate; that of the certificate if empty."""

    is_insecure: bool = False
    """Whether it speaks plain text also where other machines reach it."""


@dataclasses.dataclass(frozen=True)
class Listener:
    """Bound socket of a master."""

    socket: socket.socket
    """The socket."""

    url: str
    """Address of it, as others take it."""

    port: int
    """Its port."""

    hosts: frozenset[str]
    """Names, with the port, under which other machines reach it."""

    tls: ssl.SSLContext | None = None
    """How it speaks TLS, or None if it speaks plain text."""

    fingerprint: str = ""
    """SHA-256 of its certificate; empty without TLS."""


def check(network: Network) -> None:
    """Raises `ConfigError` if settings contradict each other, before anything is started."""
    is_local = address.is_loopback(network.host)
    if network.key and not network.certificate:
        raise errors.ConfigError(f"--key: got {network.key!r} without --certificate.")
    if network.is_insecure and (network.certificate or network.use_tls):
        raise errors.ConfigError("--insecure: is for a master without TLS; leave one of them out.")
    if network.is_insecure and is_local:
        raise errors.ConfigError(
            f"--insecure: only this machine reaches {network.host}, where plain text is what is "
            "spoken anyway; leave it out, or name an address by --host."
        )


@contextlib.contextmanager
def listen(
    network: Network, home: home_lib.Home, *, port: int, former_port: int
) -> Iterator[Listener]:
    """Listens as settings say.

    Args:
        network: The settings.
        home: Where a certificate of its own is kept.
        port: The port; 0 for the former one, or a free one.
        former_port: Port of the master before; 0 for none.

    Raises:
        ConfigError: If it can't.
    """
    check(network)
    with http_server.listen(port, former_port, network.host) as listener:
        found, port = listener.getsockname()[:2]
        is_local = address.is_loopback(found)
        names = [] if is_local else list_names(network.host, found)
        wants_tls = network.use_tls or bool(network.certificate) or not is_local
        if not wants_tls or network.is_insecure:
            url = f"http://{_join(names[0] if names else found, port)}"
            yield Listener(listener, url, port, _to_hosts(names, port))
            return
        certificate = (
            certificates.load(network.certificate, network.key)
            if network.certificate
            else certificates.load_own(home.tls, names)
        )
        url = f"https://{_join(names[0] if names else found, port)}"
        hosts = _to_hosts(names, port)
        yield Listener(
            listener,
            url,
            port,
            hosts,
            tls=certificate.context,
            fingerprint=certificate.fingerprint,
        )


def list_names(host: str, found: str) -> list[str]:
    """Returns names of this machine for other machines, the best one first."""
    is_any = ipaddress.ip_address(found).is_unspecified
    given = [] if is_any else [host.strip("[]").lower()]
    own = socket.gethostname().lower()
    return list(dict.fromkeys([*given, own, *([] if is_any else [found])]))


def _to_hosts(names: list[str], port: int) -> frozenset[str]:
    # Browsers leave out the port that a scheme has by itself.
    usual = names if port in (80, 443) else []
    return frozenset([*(_join(name, port) for name in names), *map(_bracket, usual)])


def _join(host: str, port: int) -> str:
    return f"{_bracket(host)}:{port}"


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
