"""`quintain audit`: who changed what."""

import datetime
import time
from typing import Final

import click

from quintain.cli import connect, output
from quintain.cli.lazy_group import FlagCommand
from quintain.records import team

_UNIT_SECS: Final = {"m": 60, "h": 3600, "d": 86_400}

_COLUMNS: Final[tuple[output.Column[team.AuditEntry], ...]] = (
    output.Column("time", lambda row: row.time, output.format_time),
    output.Column("user", lambda row: row.user_name),
    output.Column("address", lambda row: row.address, is_optional=True),
    output.Column("call", lambda row: row.call),
    output.Column("experiment", lambda row: row.experiment_id),
    output.Column("what", lambda row: row.arguments, can_shrink=True, is_optional=True),
)


def _parse_since(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Returns seconds since the epoch."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit in _UNIT_SECS and number.isdecimal():
        return time.time() - int(number) * _UNIT_SECS[unit]
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise click.BadParameter(
            f"got {text!r}, expected minutes, hours or days ago, as in 90m, 24h or 7d, or a local "
            "time, as in 2026-01-31 or '2026-01-31 08:30'.",
            context,
            option,
        ) from error


@click.command(cls=FlagCommand)
@click.option("--experiment", "experiment_id", type=int, metavar="ID", help="Only this one.")
@click.option("--user", "user_name", default="", metavar="NAME", help="Only by this user.")
@click.option("--since", callback=_parse_since, metavar="TIME", help="As in 24h, 7d or 2026-01-31.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Only the newest so many.",
)
@output.format_options
def audit(
    experiment_id: int | None, user_name: str, since: float | None, limit: int, form: output.Form
) -> None:
    """Show who changed what, the oldest first.

    Each command that changed something has a line, which nobody changes or deletes. It has no
    configs, as their values may be secrets.
    """
    with connect.open_calls() as calls:
        found = calls.get_audit(
            experiment_id=experiment_id, user_name=user_name, since=since, limit=limit
        )
    output.print_list(found, _COLUMNS, form=form, if_empty="Nobody has changed anything.")
