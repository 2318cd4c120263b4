"""`quintain master token`: tokens for agents, Prometheus, and users of other machines."""

import pathlib

import click

from quintain import errors
from quintain.cli import options
from quintain.cli.lazy_group import FlagCommand
from quintain.client.home import home as home_lib
from quintain.client.home import logins, token_files


@click.command(cls=FlagCommand)
@click.option("--agent", "kind", flag_value="agent", help="That by which machines join.")
@click.option("--user", "kind", flag_value="user", help="That of users: it opens everything.")
@click.option(
    "--metrics", "kind", flag_value="metrics", help="That by which Prometheus reads metrics."
)
@click.option(
    "--output",
    metavar="FILE",
    help="Write it to a file that only you can read, instead of printing it.",
)
@click.option("--renew", is_flag=True, help="Make a new one; the former one is worth nothing then.")
@options.traceback_option
def token(kind: str | None, output: str | None, renew: bool) -> None:
    r"""Print the token by which agents, users of other machines or Prometheus are known.

    It is made when it is asked for first, and stays the same until it is renewed. A master that
    runs takes a new one at once. Whoever has a user's token may do all that you may.

    \b
    quintain master token --agent --output agent.token
    quintain master token --user --output user.token
    quintain master token --agent --renew
    """
    if kind is None:
        raise click.UsageError("Say whose token: --agent, --user or --metrics.")
    home = home_lib.find_home()
    logins.check_own(home.path, "quintain master token")
    home.create()
    tokens = {"agent": home.agent_token, "user": home.user_token, "metrics": home.metrics_token}
    path = tokens[kind]
    made = token_files.renew(path) if renew else token_files.load(path)
    if renew:
        click.echo("The former token is worth nothing any more.", err=True)
    if output is None:
        click.echo(made)
        return
    if (target := pathlib.Path(output)).is_dir():
        raise errors.ConfigError(f"--output: got {output!r}, a directory, expected a file.")
    token_files.write(target, made)
    click.echo(f"Written to {output}, for its owner only.", err=True)
