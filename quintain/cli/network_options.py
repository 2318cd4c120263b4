"""Options of `quintain master start` that say where it listens, and how it shows who it is."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from quintain.server.http import network

F = TypeVar("F", bound=Callable[..., object])

_FILE = click.Path(exists=True, dir_okay=False, readable=True)


def network_options(command: F) -> F:
    """Adds the options to a command; `build_network` takes what they gave."""
    for option in reversed(
        (
            click.option(
                "--host",
                default="127.0.0.1",
                show_default=True,
                help="Address of this machine to listen on, 0.0.0.0 for all. Elsewhere than on the "
                "loopback device TLS is spoken.",
            ),
            click.option(
                "--certificate",
                type=_FILE,
                help="Certificate to show, as PEM; without it the master makes one of its own.",
            ),
            click.option("--key", type=_FILE, help="Private key of the certificate, as PEM."),
            click.option("--tls", is_flag=True, help="Speak TLS on the loopback device, too."),
            click.option(
                "--insecure",
                is_flag=True,
                help="Speak plain text also where others can listen to it: tokens, code and data.",
            ),
        )
    ):
        command = option(command)
    return command


def build_network(
    *, host: str, certificate: str | None, key: str | None, tls: bool, insecure: bool
) -> "network.Network":
    """Returns what the options say.

    Raises:
        ConfigError: If they contradict each other.
    """
    from quintain.server.http import network

    made = network.Network(host, tls, certificate or "", key or "", insecure)
    network.check(made)
    return made
