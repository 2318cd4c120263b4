"""Connection of the watcher to a Ray cluster, and its errors."""

import importlib
import os
import secrets
import socket
import traceback
from typing import Any, Final
from urllib import parse

from quintain.cluster.ray import ray_messages

_ANSWER_SECS: Final = 5.0
"""Seconds within which somebody must listen at the address of a cluster."""

_AUTHENTICATION: Final = frozenset({"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"})
"""Variables by which users say themselves how Ray asks for tokens."""


class ConnectError(Exception):
    """There is no connection to the cluster; the message says why, and what to do."""


def connect(settings: ray_messages.Settings) -> Any:
    """Returns the module `ray`, connected to the cluster.

    Raises:
        ConnectError: If it can't be.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if settings.address == ray_messages.LOCAL and not _AUTHENTICATION & os.environ.keys():
        # Otherwise Ray would make ~/.ray/auth_token, for which other clusters then ask.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ConnectError(
            f"Machines by Ray need its package ({error}): pip install 'quintain[ray]'."
        ) from error
    address = settings.address
    if address not in {"auto", ray_messages.LOCAL}:
        _check_address(address)
    options = {} if address.startswith("ray://") else {"configure_logging": False}
    try:
        ray.init(address=address, log_to_driver=False, **options)
    except (Exception, SystemExit) as error:  # Ray's have no common class.
        raise ConnectError(_explain_connection(address, error)) from error
    return ray


def _check_address(address: str) -> None:
    """Makes sure that somebody listens; Ray itself would try for minutes.

    Raises:
        ConnectError: If nobody does, or the address is none.
    """
    rest = address.removeprefix("ray://")
    try:
        found = parse.urlsplit(f"//{rest}")
        host, port = found.hostname, found.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise ConnectError(
            f"ray_address: {address!r} is no address. Give auto, local, HOST:PORT or "
            "ray://HOST:PORT."
        )
    try:
        socket.create_connection((host, port), timeout=_ANSWER_SECS).close()
    except OSError as error:
        usual = 10001 if address.startswith("ray://") else 6379
        raise ConnectError(
            f"ray_address: nobody answers at {address!r} ({error}). `ray start --head` on the "
            f"first machine starts a cluster and prints its address (port {usual} unless it was "
            "told another)."
        ) from error


def _explain_connection(address: str, error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if "InvalidAuthToken" in "".join(traceback.format_exception(error)):  # Of its cause.
        return (
            f"The Ray cluster at {address!r} asks for a token, and got none or another one: set "
            "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH, a file that has it; "
            "`ray get-auth-token` prints that of the cluster's own machine)."
        )
    if "ersion mismatch" in text:
        return (
            f"The Ray cluster at {address!r} has another version of Ray or Python: {text} "
            "Install the same versions here and there."
        )
    if "Could not find any running Ray instance" in text:
        return (
            "ray_address: no Ray cluster runs on this machine. `ray start --head` starts one, "
            "`ray start --address=HOST:6379` joins one; or give --ray-address=ray://HOST:10001 "
            "for one elsewhere, or --ray-address=local for one of this machine alone."
        )
    if "raylet" in text.lower() or "node_ip_address" in text:
        return (
            f"This machine is no node of the Ray cluster at {address!r}: {text} Join it by `ray "
            "start --address=HOST:PORT`, or give --ray-address=ray://HOST:10001."
        )
    return f"There is no connection to the Ray cluster at {address!r}: {text}"
