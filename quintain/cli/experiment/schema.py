"""`quintain experiment schema`: the JSON Schema of an experiment's file."""

import json
import pathlib

import click

from quintain.cli import options
from quintain.cli.lazy_group import FlagCommand


@click.command(cls=FlagCommand)
@click.option("-o", "--output", metavar="FILE", help="File to write; standard output by default.")
@options.traceback_option
def schema(output: str | None) -> None:
    """Write the JSON Schema of an experiment's file, with which editors complete YAML."""
    from quintain.records.config import experiment_schema

    text = json.dumps(experiment_schema.build_schema(), indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    pathlib.Path(output).write_text(text, encoding="utf-8")
    click.echo(
        f"Wrote {output}. Begin a YAML file with this line to have it completed:\n"
        f"# yaml-language-server: $schema={output}",
        err=True,
    )
