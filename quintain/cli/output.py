"""Output formats: tables for people, JSON and CSV for programs."""

import dataclasses
import enum
import io
import json
import math
import operator
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import click

from quintain.files import csv_files, file_io
from quintain.terminal import durations, printable

format_secs = durations.format_secs

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_PIPE_WIDTH: Final = 100
_MIN_WIDTH: Final = 12
_GAP: Final = "  "
_MOST_NAMES: Final = 5


@dataclasses.dataclass(frozen=True)
class Column(Generic[R]):
    """One column of a table."""

    title: str
    """Its heading, also the name in CSV."""

    get: Callable[[R], Any]
    """Returns the value of a row."""

    show: Callable[[Any], str] | None = None
    """Returns the value as people like to read it; `format_value` if None."""

    can_shrink: bool = False
    """Whether it may be cut off where the terminal is too narrow."""

    is_optional: bool = False
    """Whether tables leave it out if no row has anything there."""


def key_column(name: str) -> Column[dict[str, Any]]:
    """Returns the column of the values that dicts have under a name; it can shrink."""
    return Column(name, operator.itemgetter(name), can_shrink=True)


class Form(enum.Enum):
    """Forms of what a command prints."""

    TABLE = enum.auto()
    JSON = enum.auto()
    CSV = enum.auto()


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""Adds `--json`; the command gets it as `as_json`."""


def format_options(command: F) -> F:
    """Adds `--json` and `--csv`; the command gets a `Form` as `form`."""

    def choose(context: click.Context, option: click.Parameter, is_given: bool) -> None:
        former = context.params.setdefault("form", Form.TABLE)
        if is_given and former is not Form.TABLE:
            raise click.UsageError("--csv: got together with --json, expected one of them.")
        if is_given:
            context.params["form"] = Form[str(option.name).upper()]

    for name in ("csv", "json"):
        command = click.option(
            f"--{name}",
            is_flag=True,
            expose_value=False,
            callback=choose,
            help=f"Print {name.upper()}.",
        )(command)
    return command


def print_list(
    rows: Sequence[R],
    columns: Sequence[Column[R]],
    *,
    form: Form,
    if_empty: str = "",
) -> None:
    """Prints rows as a table, as JSON (complete records) or as CSV (the columns, unabridged).

    Args:
        rows: Records.
        columns: What tables and CSV show of them.
        form: How to print them.
        if_empty: What to say on standard error instead of an empty table.
    """
    if form is Form.JSON:
        print_json(rows)
    elif form is Form.CSV:
        click.echo(to_csv(rows, columns), nl=False)
    elif rows:
        click.echo(to_table(rows, columns))
    elif if_empty:
        click.echo(if_empty, err=True)


def confirm(question: str) -> None:
    """Asks before something that can't be undone.

    Raises:
        Abort: If the answer is no.
        UsageError: If there is no terminal to ask at.
    """
    try:
        is_wanted = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C, or nobody is there.
        if sys.stdin is None or not sys.stdin.isatty():
            raise click.UsageError("--yes: missing; there is no terminal to ask at.") from None
        raise
    if not is_wanted:
        raise click.Abort


def print_json(value: object) -> None:
    """Prints records as JSON; numbers that are not finite become texts."""
    from quintain.records.rows import codec

    click.echo(json.dumps(codec.to_plain(value), indent=2))


def write_schema(schema: dict[str, Any], path: str | None) -> None:
    """Writes a schema to a file, or to standard output if it is None.

    Args:
        schema: JSON Schema.
        path: The file.
    """
    text = json.dumps(schema, indent=2) + "\n"
    if path is None:
        click.echo(text, nl=False)
        return
    with file_io.open(path, "w") as file:
        file.write(text)
    click.echo(
        f"Wrote {path}. Begin a YAML file with this line to have it completed:\n"
        f"# yaml-language-server: $schema={path}",
        err=True,
    )


def print_record(value: object, text: str, *, as_json: bool) -> None:
    """Prints a record as JSON, or else what a text says of it."""
    if as_json:
        print_json(value)
    else:
        click.echo(text)


def print_fields(fields: Mapping[str, object], *, err: bool = False, indent: str = "") -> None:
    """Prints names with values, one a line; those that are None or empty are left out.

    Args:
        fields: Values by their names.
        err: Whether to print them to standard error.
        indent: Begins each line.
    """
    shown = {
        name: format_value(value)
        for name, value in fields.items()
        if value is not None and value not in ("", (), [], {})
    }
    width = max(map(len, shown), default=0)
    for name, text in shown.items():
        first, *others = text.splitlines() or [""]
        click.echo(f"{indent}{name:<{width}}{_GAP}{first}", err=err)
        for line in others:
            click.echo(indent + " " * (width + len(_GAP)) + line, err=err)


def to_csv(rows: Iterable[R], columns: Sequence[Column[R]]) -> str:
    """Returns rows as CSV with a heading."""
    from quintain.records.rows import codec

    text = io.StringIO()
    plain = ([codec.to_plain(column.get(row)) for column in columns] for row in rows)
    csv_files.write(text, [column.title for column in columns], plain)
    return text.getvalue()


def to_table(rows: Sequence[R], columns: Sequence[Column[R]], *, width: int | None = None) -> str:
    """Returns rows as a table that fits the terminal; a narrow one drops the last columns.

    Args:
        rows: Records.
        columns: What to show of them.
        width: Characters of a line; those of the terminal if None.
    """
    columns = [column for column in columns if not column.is_optional or any(map(column.get, rows))]
    cells = [[column.title.upper().replace("_", " ") for column in columns]]
    numeric = [True] * len(columns)
    for row in rows:
        values = [column.get(row) for column in columns]
        numeric = [
            was and (value is None or (_is_number(value) and column.show is None))
            for was, value, column in zip(numeric, values, columns, strict=True)
        ]
        cells.append(
            [
                (column.show or format_value)(value).replace("\n", " ")
                for column, value in zip(columns, values, strict=True)
            ]
        )
    total = width or shutil.get_terminal_size((0, 24)).columns  # 0 if there is no terminal.
    widths = _fit(cells, columns, total or _PIPE_WIDTH)
    if width or sys.stdout.isatty():  # What reads a pipe gets all columns.
        while len(widths) > 1 and sum(widths) + len(_GAP) * (len(widths) - 1) > total:
            widths.pop()
    cells = [line[: len(widths)] for line in cells]
    numeric = numeric[: len(widths)]
    lines = []
    for line in cells:
        parts = [
            (_cut(cell, size).rjust(size) if is_number else _cut(cell, size).ljust(size))
            for cell, size, is_number in zip(line, widths, numeric, strict=True)
        ]
        lines.append(_GAP.join(parts).rstrip())
    return "\n".join(lines)


def _fit(cells: Sequence[Sequence[str]], columns: Sequence[Column[R]], total: int) -> list[int]:
    """Returns the widths of columns; those that can shrink share what is missing."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - total
    while excess > 0:
        candidates = [
            index
            for index, column in enumerate(columns)
            if column.can_shrink and widths[index] > _MIN_WIDTH
        ]
        if not candidates:
            break
        widest = max(candidates, key=widths.__getitem__)
        widths[widest] -= 1
        excess -= 1
    return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_value(value: object) -> str:
    """Returns a value as people like to read it.

    Example:
        >>> [format_value(value) for value in (None, 0.123456789, 3, {"a": 0.1}, ("x", "y"))]
        ['', '0.12346', '3', 'a=0.1', 'x, y']
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return " ".join(
            f"{printable.clean(str(name))}={_format_part(part)}" for name, part in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    return printable.clean(str(value))


def _format_part(value: object) -> str:
    text = format_value(value)
    return f"({text})" if isinstance(value, Mapping) else f"[{text}]" if " " in text else text


def format_time(secs: float | None) -> str:
    """Returns a time since the epoch as the local date and time."""
    return "" if not secs else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(secs))


def format_names(names: Sequence[str]) -> str:
    """Returns the first of some names, and how many more there are.

    Example:
        >>> format_names(("a", "b")), format_names([f"n{number}" for number in range(9)])
        ('a, b', 'n0, n1, n2, n3, n4 and 4 more')
    """
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


def format_bytes(count: int | None) -> str:
    """Returns a number of bytes.

    Example:
        >>> [format_bytes(value) for value in (12, 2048, 5_000_000)]
        ['12 B', '2.0 KiB', '4.8 MiB']
    """
    if count is None:
        return ""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def format_percent(share: float | None) -> str:
    """Returns a share from 0 to 1 in percent."""
    return "" if share is None else f"{100 * share:.0f} %"
