"""`quintain node`: the machines that run trials, and which of them take some."""

import time
from typing import TYPE_CHECKING, Final

import click

from quintain import errors
from quintain.cli import connect, output
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.records.rows import node as node_lib

if TYPE_CHECKING:
    from quintain.client import master_client

_POLL_SECS: Final = 0.2

_COLUMNS: Final[tuple[output.Column[node_lib.NodeStatus], ...]] = (
    output.Column("machine", lambda row: row.name),
    output.Column("state", lambda row: row.state.value),
    output.Column("slots", lambda row: len(row.slots)),
    output.Column("held", lambda row: row.num_held),
    output.Column("trials", lambda row: ", ".join(map(str, row.trials)), is_optional=True),
    output.Column("labels", lambda row: _join(row), is_optional=True),
    output.Column("reason", lambda row: row.reason, is_optional=True),
)


def _join(row: node_lib.NodeStatus) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(row.labels.items()))


@click.group(cls=LazyGroup)
def node() -> None:
    """Show machines that run trials, empty them, and use them again."""


@node.command("list", cls=FlagCommand)
@output.json_option
def list_nodes(as_json: bool) -> None:
    """List the machines; that of the master is called master."""
    with connect.open_client(start=False) as client:
        found = client.list_nodes()
    output.print_record(found, output.to_table(found, _COLUMNS), as_json=as_json)


@node.command(cls=FlagCommand)
@click.argument("name")
@click.option("--wait", is_flag=True, help="Wait until no trial runs there.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECS",
    help="With --wait: give up waiting after so long.",
)
@output.json_option
def drain(name: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Let the trials of a machine save themselves and go on elsewhere, and start none there.

    This stays until `quintain node activate`, also when the machine or the master is restarted.
    """
    with connect.open_client(start=False) as client:
        found = client.drain_node(name)
        if wait:
            found = _wait_until_empty(client, name, timeout)
    output.print_record(found, output.to_table([found], _COLUMNS), as_json=as_json)


def _wait_until_empty(
    client: "master_client.MasterClient", name: str, timeout: float
) -> node_lib.NodeStatus:
    deadline = time.monotonic() + timeout
    while True:
        # The same again changes nothing, and says how it is now.
        found = client.drain_node(name)
        if not found.trials:
            return found
        if time.monotonic() > deadline:
            trials = ", ".join(map(str, found.trials))
            raise errors.ClusterError(
                f"Trials {trials} are still on machine {name} after {timeout:g} s; they finish "
                "their workloads first."
            )
        time.sleep(_POLL_SECS)


@node.command(cls=FlagCommand)
@click.argument("name")
@output.json_option
def activate(name: str, as_json: bool) -> None:
    """Start trials on a machine again."""
    with connect.open_client(start=False) as client:
        found = client.activate_node(name)
    output.print_record(found, output.to_table([found], _COLUMNS), as_json=as_json)
