"""`quintain master`: runs the master of this home directory, and says what it does."""

import functools
import ipaddress
import os
import pathlib
import re
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from quintain import errors
from quintain.cli import (
    connect,
    launcher_options,
    logs,
    options,
    output,
    page_links,
    standard_streams,
)
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.client.home import home as home_lib
from quintain.client.home import home_database, logins, master_file
from quintain.process import told_again
from quintain.records.views import master_status
from quintain.web import request_checks

if TYPE_CHECKING:
    from quintain.server import daemon
    from quintain.server.http import network
    from quintain.server.security import access

_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_TAKEN_HEADERS: Final = ("authorization", "cookie", "host", "origin")
_STOP_POLL_SECS: Final = 0.1
_FEW_SLOTS: Final = 64
"""So many slots are listed; of more, it is said how many are in use."""


def _name_others(row: master_status.SlotStatus) -> str | None:
    return "in use" if row.trial_id == master_status.OTHERS else None


_SLOT_COLUMNS: Final[tuple[output.Column[master_status.SlotStatus], ...]] = (
    output.Column("slot", lambda row: row.id),
    output.Column("machine", lambda row: row.node, is_optional=True),
    output.Column("kind", lambda row: row.kind),
    output.Column("device", lambda row: row.device, is_optional=True),
    output.Column("threads", lambda row: row.num_threads),
    output.Column("experiment", lambda row: row.experiment_id or _name_others(row)),
    output.Column("trial", lambda row: row.trial_id or _name_others(row)),
)

_EXPERIMENT_COLUMNS: Final[tuple[output.Column[master_status.ExperimentSummary], ...]] = (
    output.Column("experiment", lambda row: row.experiment_id),
    output.Column("state", lambda row: row.state.value),
    output.Column("progress", lambda row: row.progress, output.format_percent),
    output.Column("running", lambda row: row.num_running),
    output.Column("waiting", lambda row: row.num_waiting),
    output.Column("eta", lambda row: row.eta_secs, output.format_secs),
)


_PEM_FILE = click.Path(exists=True, dir_okay=False, readable=True)


_network_options = options.combine(
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="Address of this machine to listen on, 0.0.0.0 for all. Elsewhere than on the "
        "loopback device TLS is spoken.",
    ),
    click.option(
        "--certificate",
        type=_PEM_FILE,
        help="Certificate to show, as PEM; without it the master makes one of its own.",
    ),
    click.option("--key", type=_PEM_FILE, help="Private key of the certificate, as PEM."),
    click.option("--tls", is_flag=True, help="Speak TLS on the loopback device, too."),
    click.option(
        "--insecure",
        is_flag=True,
        help="Speak plain text also where others can listen to it: tokens, code and data.",
    ),
)
"""Adds the options to a command; `_build_network` takes what they gave."""


def _build_network(
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


def _build_proxy(header: str | None, address: str | None) -> "access.TrustedProxy | None":
    """Returns the proxy that names users, or None if there is none.

    Raises:
        ConfigError: If there can be no such header or address.
    """
    if header is None and address is None:
        return None
    if header is None or address is None:
        raise click.UsageError("--trusted-proxy-header and --trusted-proxy go together.")
    from quintain.server.security import access

    if not _HEADER.fullmatch(header) or header.lower() in _TAKEN_HEADERS:
        raise errors.ConfigError(
            f"--trusted-proxy-header: got {errors.show(header)}, expected the name of a header of "
            "the proxy's own, such as X-Forwarded-User."
        )
    try:
        is_loopback = ipaddress.ip_address(address).is_loopback
    except ValueError as error:
        raise errors.ConfigError(
            f"--trusted-proxy: got {errors.show(address)}, expected the IP address of the proxy."
        ) from error
    if is_loopback:
        click.echo(
            f"Warning: --trusted-proxy: every user of this machine can connect from {address}, "
            f"and say in {header} that they are somebody else.",
            err=True,
        )
    return access.TrustedProxy(header, address)


class _MasterGroup(LazyGroup):
    """A group whose flags, other than that for help, are those of `start`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Finds the command."""
        is_start = bool(args) and args[0].startswith("-") and args[0] not in ctx.help_option_names
        return super().parse_args(ctx, ["start", *args] if is_start else args)


@click.group(
    cls=_MasterGroup,
    sections={
        "Commands": {
            "token": (
                "quintain.cli.platform.master_token:token",
                "Print the token of agents, or of users of other machines.",
            )
        }
    },
    invoke_without_command=True,
)
@click.pass_context
def master(context: click.Context) -> None:
    """Run the master of this home directory (QUINTAIN_HOME), or ask it or end it.

    Without a sub-command it is started, in the foreground.
    """
    if context.invoked_subcommand is None:
        context.invoke(start)


@master.command(cls=FlagCommand)
@functools.partial(options.slot_options, least=0)
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    default=0,
    show_default="that of last time, or a free one",
    help="Port to listen on.",
)
@_network_options
@launcher_options.launcher_options
@click.option(
    "--idle-timeout",
    type=click.FloatRange(min=0),
    metavar="SECS",
    help="End after so many seconds without an active experiment.",
)
@click.option(
    "--database",
    metavar="URL|FILE",
    help="Where experiments are kept: postgresql+psycopg://USER@HOST/NAME, without the password, or"
    " an SQLite file. The home remembers it.",
)
@click.option(
    "--new-database",
    is_flag=True,
    help="Start though the database knows nothing of the checkpoints that are there.",
)
@options.runs_option
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Further name under which browsers ask, such as that of a proxy. Repeatable.",
)
@click.option(
    "--trusted-proxy-header",
    metavar="NAME",
    help="Header in which a proxy names the user, such as X-Forwarded-User.",
)
@click.option(
    "--trusted-proxy",
    metavar="ADDRESS",
    help="IP address of that proxy; from others the header counts for nothing.",
)
@click.option("--verbose", "-v", is_flag=True, help="Log more.")
def start(
    num_slots: int | None = None,
    threads_per_slot: int | None = None,
    port: int = 0,
    idle_timeout: float | None = None,
    database: str | None = None,
    new_database: bool = False,
    run_dirs: tuple[str, ...] = (),
    allowed_hosts: tuple[str, ...] = (),
    trusted_proxy_header: str | None = None,
    trusted_proxy: str | None = None,
    verbose: bool = False,
    **others: Any,
) -> None:
    """Run the master in the foreground, until SIGTERM or Ctrl-C.

    Trials then finish their workload and save themselves; a second signal ends at once, and leaves
    their processes to the next master. If the terminal is closed, it goes on in the background and
    writes to logs/master.log in the home directory.
    """
    hosts = [request_checks.parse_host(name) for name in allowed_hosts]
    chosen = None if database is None else home_database.parse_argument("--database", database)
    home = home_lib.find_home()
    logins.check_own(home.path, "quintain master start")
    home.create()
    log_path = home.logs / "master.log"
    standard_streams.outlive_readers(log_path)
    logs.set_up(is_verbose=verbose)
    from quintain.server import daemon

    launchers = launcher_options.build_launchers(others)
    network = _build_network(**others)
    proxy = _build_proxy(trusted_proxy_header, trusted_proxy)
    if launchers.kind == launcher_options.RAY and num_slots is None:
        num_slots = 0  # This machine may be a node itself.
    slots = daemon.find_slots(num_slots, threads_per_slot)
    with daemon.MasterServer(
        home,
        slots=slots,
        settings=daemon.ServerSettings(
            port=port,
            database=chosen,
            accept_new_database=new_database,
            run_dirs=run_dirs,
            allowed_hosts=hosts,
            launchers=launchers,
            network=network,
            proxy=proxy,
        ),
    ) as server:
        _stop_on_signals(server, log_path)
        click.echo(
            f"The master of {home.path} runs at {server.url} (process {os.getpid()}) with "
            f"{len(slots)} slot{'s' if len(slots) != 1 else ''}.",
            err=True,
        )
        if server.fingerprint:
            click.echo(f"Fingerprint of its certificate (SHA-256): {server.fingerprint}", err=True)
        page_links.show(lambda: server.sign_in.build_link(stays=True))
        if server.wait(idle_timeout_secs=idle_timeout):
            click.echo("Stopping; trials save themselves.", err=True)
            server.drain()
    click.echo("The master has ended.", err=True)


def _stop_on_signals(server: "daemon.MasterServer", log_path: pathlib.Path) -> None:
    """Makes the first signal drain the master, and the second one end it at once.

    The end of its terminal does not end it; with `nohup` it never hears of that.
    """
    requests = told_again.Requests()

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        if not requests.is_told_again():
            server.request_stop(drain=not server.is_stop_requested)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: standard_streams.redirect(log_path))


@master.command(cls=FlagCommand)
@click.option(
    "--slots", "all_slots", is_flag=True, help=f"List all slots, also more than {_FEW_SLOTS}."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all slots.")
def status(all_slots: bool, as_json: bool) -> None:
    """Show the running master: its slots and its experiments. Exits with 1 if none runs."""
    with connect.open_client(start=False) as client:
        info = client.get_info()
        if as_json:
            output.print_json({"master": info, "status": client.get_status()})
            return
        found = client.get_summary()
        is_long = found.num_slots > _FEW_SLOTS and not all_slots
        slots = () if is_long else client.get_status().slots
        page_links.show(lambda: client.build_link().url)
    output.print_fields(
        {
            "home": info.home,
            "address": info.url,
            "database": info.database,
            "fingerprint": info.fingerprint or None,
            "process": info.pid,
            "started": output.format_time(info.start_time),
            "version": info.version,
            "problem": found.problem,
            "slow start": found.slow_start,
            "embedded": "in `quintain experiment create`" if info.is_embedded else None,
        }
    )
    click.echo()
    if is_long:
        count = f"{found.num_busy_slots} of {found.num_slots}"
        click.echo(f"{count} slots are in use (--slots lists them).")
    else:
        click.echo(output.to_table(slots, _SLOT_COLUMNS))
    if found.lost_nodes:
        names = output.format_names(found.lost_nodes)
        click.echo(f"Lost machines, whose slots are not counted: {names}.")
    if found.experiments:
        click.echo()
        click.echo(output.to_table(found.experiments, _EXPERIMENT_COLUMNS))
        for each in found.experiments:
            if each.lack:
                click.echo(f"Experiment {each.experiment_id} waits. {each.lack}")
            if each.waits_for:
                click.echo(f"Experiment {each.experiment_id}: {each.waits_for}")


@master.command(cls=FlagCommand)
@click.option(
    "--now",
    is_flag=True,
    help="Do not wait for trials; the next master takes their processes over.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    metavar="SECS",
    help="Give up waiting after so long.",
)
def stop(now: bool, timeout: float) -> None:
    """End the running master. Trials save themselves, and go on with the next one."""
    home = home_lib.find_home()
    found = home_lib.find_master(home)
    if found is None:
        click.echo(f"No master runs for {home.path}.", err=True)
        return
    with connect.open_client(start=False) as client:
        asked = client.stop_master(drain=not now)
    deadline_secs = time.monotonic() + timeout
    while _is_alive(found, asked):
        if time.monotonic() > deadline_secs:
            raise errors.ClusterError(
                f"The master ({found.name}) has not ended after {timeout:g} s."
            )
        time.sleep(_STOP_POLL_SECS)
    click.echo("The master has ended.")


def _is_alive(
    found: master_file.MasterFile | logins.Login, asked: master_status.MasterInfo
) -> bool:
    """Returns whether a master that was asked to stop is still there."""
    if isinstance(found, master_file.MasterFile):
        return found.is_alive()
    from quintain.client import master_client
    from quintain.client.http import connection

    try:
        retries = connection.Retries(total_secs=0.0)
        with master_client.MasterClient(
            connection.Connection(found.address, retries=retries)
        ) as client:
            info = client.get_info()
    except errors.MasterUnreachableError:
        return False
    # Something may have started another one at once.
    return (info.pid, info.start_time) == (asked.pid, asked.start_time)
