"""`quintain user`: roles of users over projects of experiments."""

from typing import Final

import click

from quintain.cli import connect, output
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.client.home import token_files
from quintain.records import team

_COLUMNS: Final[tuple[output.Column[team.User], ...]] = (
    output.Column("user", lambda row: row.name),
    output.Column("role", lambda row: row.roles.get(team.ALL_PROJECTS)),
    output.Column(
        "of projects",
        lambda row: {project: role for project, role in sorted(row.roles.items()) if project},
        can_shrink=True,
    ),
    output.Column("token", lambda row: row.has_token),
)


@click.group(cls=LazyGroup)
def user() -> None:
    """Show who may do what, and give roles: viewer, editor or admin.

    A viewer reads, an editor also creates and changes experiments, an admin does what you do.
    Users are known by tokens (`quintain master token --user NAME`) or by a trusted proxy.
    """


@user.command("list", cls=FlagCommand)
@output.json_option
def list_users(as_json: bool) -> None:
    """List the users with their roles."""
    with connect.open_client(start=False) as client:
        _show(client.list_users(), as_json=as_json)


@user.command(cls=FlagCommand)
@output.json_option
def whoami(as_json: bool) -> None:
    """Show as whom the master knows you, and your roles."""
    with connect.open_client(start=False) as client:
        _show([client.get_user()], as_json=as_json)


@user.command(cls=FlagCommand)
@click.argument("name")
@click.argument("role", type=click.Choice([each.value for each in team.Role]))
@click.option("--project", default="", metavar="PROJECT", help="Over this one; else over all.")
@output.json_option
def grant(name: str, role: str, project: str, as_json: bool) -> None:
    r"""Give a user a role, in place of the one they had over the same project, or over all.

    \b
    quintain user grant anna viewer
    quintain user grant anna editor --project speech
    """
    token_files.check_name(name, where="NAME")
    with connect.open_client(start=False) as client:
        _show([client.grant_role(name, team.Role(role), project=project)], as_json=as_json)


@user.command(cls=FlagCommand)
@click.argument("name")
@click.option("--project", metavar="PROJECT", help="Only the role over this one.")
@output.json_option
def revoke(name: str, project: str | None, as_json: bool) -> None:
    """Take all roles from a user, or the one over a project.

    Their token stays; without a role it opens nothing.
    """
    token_files.check_name(name, where="NAME")
    with connect.open_client(start=False) as client:
        _show([client.revoke_roles(name, project=project)], as_json=as_json)


def _show(found: list[team.User], *, as_json: bool) -> None:
    output.print_record(found, output.to_table(found, _COLUMNS), as_json=as_json)
