"""`quintain master token`: tokens for agents, Prometheus, and users of other machines."""

import pathlib

import click

from quintain import errors
from quintain.cli import output
from quintain.cli.lazy_group import FlagCommand
from quintain.client.home import home as home_lib
from quintain.client.home import logins, token_files


@click.command(cls=FlagCommand)
@click.option("--agent", is_flag=True, help="That by which machines join.")
@click.option(
    "--user",
    is_flag=False,
    flag_value=token_files.OWNER,
    metavar="[NAME]",
    help="That of a user; without a name your own.",
)
@click.option("--metrics", is_flag=True, help="That by which Prometheus reads metrics.")
@click.option(
    "--output",
    "path",
    metavar="FILE",
    help="Write it to a file that only you can read, instead of printing it.",
)
@click.option("--renew", is_flag=True, help="Make a new one; the former one is worth nothing then.")
@click.option("--list", "is_list", is_flag=True, help="List the users who have one.")
@click.option("--revoke", metavar="NAME", help="Delete that of a user, at once.")
def token(
    agent: bool,
    user: str | None,
    metrics: bool,
    path: str | None,
    renew: bool,
    is_list: bool,
    revoke: str | None,
) -> None:
    r"""Print the token by which agents, users of other machines or Prometheus are known.

    It is made when it is asked for first, and stays the same until it is renewed. A master that
    runs takes a new one at once. Whoever has your own, or a user's, may do all that you may.

    \b
    quintain master token --agent --output agent.token
    quintain master token --user anna --output anna.token
    quintain master token --user anna --renew
    quintain master token --list
    quintain master token --revoke anna
    """
    if sum((agent, user is not None, metrics, is_list, revoke is not None)) != 1:
        raise click.UsageError("Give one of --agent, --user, --metrics, --list and --revoke.")
    if (is_list or revoke is not None) and (path or renew):
        raise click.UsageError("--output and --renew go with --agent, --user and --metrics only.")
    home = home_lib.find_home()
    logins.check_own(home.path, "quintain master token")
    home.create()
    tokens = home.user_tokens
    if is_list:
        _list_users(tokens)
        return
    if revoke is not None:
        tokens.revoke(revoke)
        click.echo(f"The token of user {revoke} is worth nothing any more.", err=True)
        return
    if user is not None:
        made = tokens.load(user, is_new=renew)
    else:
        kind = home.agent_token if agent else home.metrics_token
        made = token_files.renew(kind) if renew else token_files.load(kind)
    if renew:
        click.echo("The former token is worth nothing any more.", err=True)
    if path is None:
        click.echo(made)
        return
    if (target := pathlib.Path(path)).is_dir():
        raise errors.ConfigError(f"--output: got {path!r}, a directory, expected a file.")
    token_files.write(target, made)
    click.echo(f"Written to {path}, for its owner only.", err=True)


def _list_users(tokens: token_files.UserTokens) -> None:
    rows = [(name, tokens.get_path(name).stat().st_mtime) for name in tokens.list_names()]
    if not rows:
        click.echo("No user has a token.", err=True)
        return
    columns: tuple[output.Column[tuple[str, float]], ...] = (
        output.Column("user", lambda row: row[0]),
        output.Column("made", lambda row: row[1], output.format_time),
    )
    click.echo(output.to_table(rows, columns))
