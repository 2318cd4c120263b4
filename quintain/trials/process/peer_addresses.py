"""Addresses of the processes that train a trial together."""

import contextlib
import functools
import ipaddress
import json
import socket
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Final

from quintain import errors
from quintain.records.rows import trial
from quintain.storage import retries

HOST_VARIABLE: Final = "QUINTAIN_HOST"
"""Variable with the address by which other machines reach this one, where it is not found out."""

PATIENCE_SECS: Final = 1800.0
"""For so long a process waits until others can be reached; a storage is waited for as long."""

_KNOCK_SECS: Final = 5.0
_LOOPBACK: Final = "127.0.0.1"
_ELSEWHERE: Final = "192.0.2.1"
"""An address of no machine (RFC 5737): nothing is sent to it."""


def find_own(master: str, port: int, environment: Mapping[str, str]) -> trial.Peer:
    """Returns the address of this process."""
    given = environment.get(HOST_VARIABLE)
    host = given or _find_source(urllib.parse.urlsplit(master).hostname or _LOOPBACK)
    outside = _find_source(_ELSEWHERE) if _is_loopback(host) else host
    return trial.Peer(environment.get("QUINTAIN_NODE", ""), host, outside, port)


def list_addresses(members: Sequence[trial.Peer]) -> list[str]:
    """Returns `host:port` of all processes, by rank.

    On one machine they talk over its loopback interface. So they do where all reach the master by
    theirs, and thus are all on its machine.

    Raises:
        ConfigError: If a machine has no address for the others.
    """
    if len({each.node for each in members}) == 1:
        return [f"{_LOOPBACK}:{each.port}" for each in members]
    if all(_is_loopback(each.host) for each in members):
        return [_join(each.host, each.port) for each in members]
    hosts = [each.outside if _is_loopback(each.host) else each.host for each in members]
    for member, host in zip(members, hosts, strict=True):
        if _is_loopback(host):
            name = f"machine {member.node!r}" if member.node else "the machine of the master"
            raise errors.ConfigError(
                f"{HOST_VARIABLE}: missing on {name}, of which no address is known by which other "
                "machines reach it. Set it there, and start its agent (or master) again."
            )
    return [_join(host, member.port) for host, member in zip(hosts, members, strict=True)]


def await_reachable(
    members: Sequence[trial.Peer], rank: int, *, patience_secs: float = PATIENCE_SECS
) -> None:
    """Waits until a process reaches those of its trial on other machines.

    TensorFlow would wait without a word, until whatever is between them lets it through. Nobody has
    to listen at their ports yet: that a connection is refused is an answer as well.

    Raises:
        ClusterError: If one of them can't be reached until then.
    """
    try:
        addresses = list_addresses(members)
    except errors.ConfigError:
        return  # Who configures TensorFlow says so, and that trying again is of no use.
    own = members[rank].node
    for member, address in zip(members, addresses, strict=True):
        if member.node == own:
            continue
        doing = (
            f"Machine {own or 'of the master'}: reaching the process of the same trial at "
            f"{address}, on machine {member.node or 'of the master'}"
        )
        host, _, port = address.rpartition(":")
        try:
            retries.call(
                functools.partial(_knock, host.strip("[]"), int(port)),
                doing=doing,
                patience_secs=patience_secs,
            )
        except OSError as error:
            raise errors.ClusterError(
                f"{doing}: {retries.describe(error)}. Machines that train one trial together have "
                "to reach each other at all ports. Let firewalls allow that; if a machine has "
                f"another address for the others, set {HOST_VARIABLE} there, and start its agent "
                "again."
            ) from error


def _knock(host: str, port: int) -> None:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection((host, port), timeout=_KNOCK_SECS).close()


def tf_config(members: Sequence[trial.Peer], rank: int) -> str:
    """Returns the value of `TF_CONFIG` for one of the processes."""
    task = {"type": "worker", "index": rank}
    return json.dumps({"cluster": {"worker": list_addresses(members)}, "task": task})


def _find_source(target: str) -> str:
    """Returns the address of this machine that an address is reached from."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(target, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError:
        return _LOOPBACK


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
