"""`quintain login` and `quintain logout`: which master the commands of this home directory ask."""

import click

from quintain import errors
from quintain.cli.lazy_group import FlagCommand
from quintain.client import address as address_lib
from quintain.client.home import home as home_lib
from quintain.client.home import home_database, logins, token_files


@click.command(cls=FlagCommand)
@click.argument("url")
@click.option(
    "--token-file",
    required=True,
    metavar="FILE",
    help="File with the token of a user; `quintain master token --user` writes it there.",
)
@click.option(
    "--fingerprint",
    metavar="SHA256",
    help="Of the master's certificate; without it an authority has to vouch for it.",
)
@click.option("--insecure", is_flag=True, help="Send the token in plain text (http://).")
def login(url: str, token_file: str, fingerprint: str | None, insecure: bool) -> None:
    r"""Ask the master at URL, on another machine, by all commands of this home directory.

    \b
    quintain login https://trainer.example.org:8443 --token-file user.token --fingerprint 5f2a...
    """
    home = home_lib.find_home()
    address = address_lib.Address(
        address_lib.parse_url(url, name="URL", is_insecure=insecure, trusts_ports=False),
        token_files.read(token_file, name="--token-file"),
        address_lib.parse_fingerprint(fingerprint, name="--fingerprint") if fingerprint else "",
    )
    if (own := home_lib.find_own_master(home)) is not None:
        raise errors.StateError(
            f"A master runs for {home.path} ({own.name}), which commands would not ask any more. "
            "End it by `quintain master stop`, or set QUINTAIN_HOME to another directory."
        )
    # It imports urllib3, which `--help` need not wait for.
    from quintain.client import master_client
    from quintain.client.http import connection, tls_pools

    try:
        connected = connection.Connection(address, retries=connection.Retries(total_secs=0.0))
        with master_client.MasterClient(connected) as client:
            info = client.get_info()
    except errors.UnauthorizedError as error:
        raise errors.ConfigError(
            f"--token-file: the master at {address.url} does not know what {token_file!r} holds as "
            "the token of its users; `quintain master token --user` prints it there."
        ) from error
    except errors.MasterUnreachableError as error:
        shown = "" if address.fingerprint else tls_pools.read_fingerprint(address.url)
        if not shown:
            raise
        raise errors.MasterUnreachableError(
            f"{error}\nIts certificate has the fingerprint {shown}. Only if `quintain master "
            f"status` shows the same where it runs: add --fingerprint {shown}"
        ) from error
    home.create()
    logins.write(home.path, address)
    click.echo(
        f"Commands ask the master at {address.url} now (version {info.version}, home {info.home}); "
        "`quintain logout` ends that.",
        err=True,
    )
    if home_database.exists(home.path):
        click.echo(f"Until then the experiments of {home.path} are not shown.", err=True)


@click.command(cls=FlagCommand)
def logout() -> None:
    """Ask the master of this home directory again, and forget that of another machine."""
    home = home_lib.find_home()
    if not logins.remove(home.path):
        click.echo(f"Commands of {home.path} are not logged in.", err=True)
