"""`quintain experiment schema`: the JSON Schema of an experiment's file."""

import json
from typing import Any

import click

from quintain.cli.lazy_group import FlagCommand
from quintain.files import file_io


@click.command(cls=FlagCommand)
@click.option("-o", "--output", metavar="FILE", help="File to write; standard output by default.")
def schema(output: str | None) -> None:
    """Write the JSON Schema of an experiment's file, with which editors complete YAML."""
    from quintain.records.config import experiment_schema

    write(experiment_schema.build_schema(), output)


def write(schema: dict[str, Any], path: str | None) -> None:
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
