"""`quintain checkpoint orphans`: directories of checkpoints that the database does not know."""

from collections.abc import Sequence
from typing import Final

import click

from quintain import errors
from quintain.cli import connect, output
from quintain.cli.lazy_group import FlagCommand
from quintain.records.rows import checkpoint as checkpoint_lib

_COLUMNS: Final[tuple[output.Column[checkpoint_lib.Orphan], ...]] = (
    output.Column("name", lambda row: row.name),
    output.Column("experiment", lambda row: row.experiment_id),
    output.Column("trial", lambda row: row.trial_id),
    output.Column("batches", lambda row: row.total_batches),
    output.Column("size", lambda row: row.num_bytes, output.format_bytes),
    output.Column("changed", lambda row: row.time, output.format_time),
    output.Column("home", lambda row: row.home_id, can_shrink=True, is_optional=True),
    output.Column("can't be adopted:", lambda row: row.problem, can_shrink=True, is_optional=True),
)


@click.command(cls=FlagCommand)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--adopt", is_flag=True, help="Give them to the experiments that they name.")
@click.option("--delete", is_flag=True, help="Delete them.")
@click.option("--all", "takes_all", is_flag=True, help="All of them, instead of names.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@output.format_options
def orphans(
    names: tuple[str, ...], adopt: bool, delete: bool, takes_all: bool, yes: bool, form: output.Form
) -> None:
    r"""List directories of checkpoints that the database does not know; adopt or delete some.

    They are there after a process was killed between saving and reporting, or after an older copy
    of the database was restored. Nothing deletes them but --delete. Those that were adopted are
    kept until `quintain checkpoint delete`.

    \b
    quintain checkpoint orphans
    quintain checkpoint orphans --adopt 5615c134 0b1c2d3e
    quintain checkpoint orphans --delete --all
    """
    if adopt and delete:
        raise click.UsageError("--adopt: got together with --delete, expected one of them.")
    with connect.open_calls() as calls:
        found = calls.list_orphans()
    chosen = _choose(found, names) if names else found
    if not (adopt or delete):
        output.print_list(
            chosen,
            _COLUMNS,
            form=form,
            if_empty="The database knows all checkpoints that are there.",
        )
        return
    if not names and not takes_all:
        raise click.UsageError("NAME: missing; give names of the list, or --all.")
    if adopt:
        chosen = chosen if names else [one for one in found if not one.problem]
    if not chosen:
        click.echo("There is none of them.", err=True)
        return
    what = "Adopt" if adopt else "Delete"
    if not yes:
        size = output.format_bytes(sum(one.num_bytes for one in chosen))
        listed = "\n".join(f"  {one.path}" for one in chosen)
        output.confirm(f"{listed}\n{what} these {len(chosen)} ({size})?")
    with connect.open_client() as client:
        for one in chosen:
            if adopt:
                taken = client.adopt_orphan(one.name)
                click.echo(f"Trial {taken.trial_id} has adopted checkpoint {taken.uuid}.")
            else:
                client.delete_orphan(one.name)
                click.echo(f"Deleted {one.path}.")


def _choose(
    found: Sequence[checkpoint_lib.Orphan], names: Sequence[str]
) -> list[checkpoint_lib.Orphan]:
    """Returns those of the names, or of beginnings of names.

    Raises:
        NotFoundError: If there is none, or more than one.
    """
    chosen = []
    for name in names:
        fitting = [one for one in found if one.name == name] or [
            one for one in found if checkpoint_lib.is_uuid_prefix(name, one.name)
        ]
        if len(fitting) != 1:
            raise errors.NotFoundError(
                f"checkpoint {name}: {len(fitting)} of those that the database does not know "
                "begin like this (4 letters at least); `quintain checkpoint orphans` lists them."
            )
        chosen += fitting
    return chosen
