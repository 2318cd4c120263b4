"""`quintain agent`: lets this machine run trials for a master on another one."""

import os
import pathlib
import signal
import socket
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

from quintain import errors
from quintain.cli import logs, options
from quintain.cli.lazy_group import FlagCommand
from quintain.client import address
from quintain.client.home import token_files
from quintain.process import told_again

if TYPE_CHECKING:
    from quintain.cluster.agents import node_agent

_OWN_VARIABLES: Final = "QUINTAIN_"


@click.command(cls=FlagCommand)
@click.option(
    "--master",
    "url",
    required=True,
    metavar="URL",
    help="Address of the master, as `quintain master status` shows it.",
)
@click.option(
    "--token-file",
    required=True,
    metavar="FILE",
    help="File with the token of agents; `quintain master token --agent` names it.",
)
@click.option(
    "--fingerprint",
    default="",
    metavar="SHA256",
    help="Fingerprint of the master's certificate; without it the system's authorities decide.",
)
@click.option("--insecure", is_flag=True, help="Speak plain text with a master on another machine.")
@options.slot_options
@click.option(
    "--label",
    "label_texts",
    multiple=True,
    metavar="NAME=VALUE",
    help="What experiments choose machines by (`resources.node_labels`). Repeatable.",
)
@click.option("--name", help="Name of the machine in the cluster.  [default: its host name]")
@click.option(
    "--cache",
    "cache_dir",
    metavar="DIR",
    help="Directory for processes, code and checkpoints, on a disk of this machine.  "
    "[default: ~/.cache/quintain/agents/NAME]",
)
@click.option(
    "--cache-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="GIB",
    help="Size of the code and checkpoints there that are kept from the master.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECS",
    help="End if the master is away for longer.",
)
@click.option("--verbose", "-v", is_flag=True, help="Log more.")
def agent(
    url: str,
    token_file: str,
    fingerprint: str,
    insecure: bool,
    num_slots: int | None,
    threads_per_slot: int | None,
    label_texts: tuple[str, ...],
    name: str | None,
    cache_dir: str | None,
    cache_limit: float,
    patience: float,
    verbose: bool,
) -> None:
    r"""Let this machine run trials for the master at an address.

    It runs in the foreground. On SIGTERM or Ctrl-C its trials save themselves and go on elsewhere,
    then it ends. Another one, a second or more later, ends it at once; its processes go on, and the
    next agent with the same name and directory takes them over, as after it was killed.

    \b
    quintain agent --master=https://trainer:8443 --token-file=agent.token \
        --fingerprint=3f5c... --label=gpu=a100
    """
    logs.set_up(is_verbose=verbose)
    url = address.parse_url(url, name="--master", is_insecure=insecure)
    fingerprint = (
        address.parse_fingerprint(fingerprint, name="--fingerprint") if fingerprint else ""
    )
    name = name or socket.gethostname().lower()

    def find_address() -> address.Address:
        # The file may be replaced when the token is renewed.
        return address.Address(url, token_files.read(token_file, name="--token-file"), fingerprint)

    from quintain.client.home import home as home_lib
    from quintain.client.home import home_database
    from quintain.client.http import connection as connection_lib
    from quintain.cluster.agents import agent_client, agent_directory, agent_protocol, node_agent
    from quintain.master.placing import slots
    from quintain.master.processes import process_launcher

    agent_protocol.check_name(name)
    settings = node_agent.AgentSettings(
        name=name,
        slots=tuple(slots.find_slots(num_slots, threads_per_slot)),
        labels=_parse_labels(label_texts),
        environment={"QUINTAIN_CACHE_LIMIT": str(int(cache_limit * 2**30))},
        patience_secs=patience,
        idle_patience_secs=patience,
    )
    path = pathlib.Path(cache_dir).expanduser().absolute() if cache_dir else None
    directory = agent_directory.AgentDirectory(path or agent_directory.find_default(name))
    # What this user asks other masters by is no trial's concern.
    home_database.hide(os.environ)
    for variable in [each for each in os.environ if each.startswith(_OWN_VARIABLES)]:
        del os.environ[variable]
    with (
        home_lib.write_privately(),
        directory.hold(),
        connection_lib.Connection(
            find_address(), retries=agent_client.RETRIES, find_master=find_address
        ) as connection,
    ):
        launcher = process_launcher.ProcessLauncher(idle_secs=node_agent.FORK_SERVER_SECS)
        launcher.warm_up()
        made = node_agent.NodeAgent(
            agent_client.AgentClient(connection, name), launcher, directory, settings
        )
        _stop_on_signals(made)
        count = len(settings.slots)
        click.echo(
            f"The agent {name} (process {os.getpid()}) has {count} slot{'s' if count != 1 else ''} "
            f"for the master at {url}. Its directory is {directory.path}.",
            err=True,
        )
        try:
            made.run()
        except errors.UnauthorizedError as error:
            raise errors.ConfigError(
                f"--token-file: the master at {url} does not know what {token_file!r} holds as the "
                "token of its agents (a user's token is none); `quintain master token --agent` "
                "prints it there."
            ) from error
        except errors.UntrustedMasterError as error:
            raise errors.ConfigError(
                f"--fingerprint: {error} Start the agent again with the right one: it takes over "
                "what runs here. If nobody has given the master a new certificate, another server "
                "answers at its address."
            ) from error
    click.echo("The agent has ended.", err=True)


def _stop_on_signals(made: "node_agent.NodeAgent") -> None:
    """Makes the first signal drain the machine, and the second one end the agent at once."""
    requests = told_again.Requests()
    is_draining = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_draining
        del frame
        if requests.is_told_again():
            return
        if is_draining:
            made.stop()
            return
        is_draining = True
        click.echo("Leaving; trials save themselves.", err=True)
        made.drain(f"its agent got {signal.Signals(number).name}.")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def _parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """Returns labels by name.

    Raises:
        ConfigError: If one has no name, or there are two of a name.
    """
    labels: dict[str, str] = {}
    for text in texts:
        label, is_pair, value = text.partition("=")
        if not label or not is_pair:
            raise errors.ConfigError(f"--label: got {text!r}, expected NAME=VALUE, like gpu=a100.")
        if label in labels:
            raise errors.ConfigError(f"--label: {label!r} is given twice.")
        labels[label] = value
    return labels
