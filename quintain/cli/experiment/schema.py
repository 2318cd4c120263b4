"""`quintain experiment schema`: the JSON Schema of an experiment's file."""

import click

from quintain.cli import output as output_lib
from quintain.cli.lazy_group import FlagCommand


@click.command(cls=FlagCommand)
@click.option("-o", "--output", metavar="FILE", help="File to write; standard output by default.")
def schema(output: str | None) -> None:
    """Write the JSON Schema of an experiment's file, with which editors complete YAML."""
    from quintain.records.config import experiment_schema

    output_lib.write_schema(experiment_schema.build_schema(), output)
