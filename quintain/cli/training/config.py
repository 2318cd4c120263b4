"""`quintain config`: shows, lists, compares and describes experiments."""

import json
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from quintain import errors
from quintain.cli import logs, options, output
from quintain.cli import output as output_lib
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.files import file_io

if TYPE_CHECKING:
    from quintain.config import provenance


_EXPERIMENT_COLUMNS: Final[tuple[output.Column[tuple[str, str]], ...]] = (
    output.Column("experiment", operator.itemgetter(0)),
    output.Column("description", operator.itemgetter(1), can_shrink=True),
)


@click.group(cls=LazyGroup)
def config() -> None:
    """Show, list, compare and describe experiments."""
    logs.set_up(is_verbose=False)


@config.command("list", cls=FlagCommand)
@output.json_option
@click.option(
    "--import", "imports", multiple=True, metavar="MODULE", help="Module to import first."
)
def list_experiments(as_json: bool, imports: tuple[str, ...]) -> None:
    """List the registered experiments with a line each."""
    options.build_parse_options()
    from quintain.core import exp_factory
    from quintain.run import experiment_parser

    experiment_parser.import_modules(imports)
    experiments = exp_factory.registered_experiments()
    if as_json:
        click.echo(json.dumps(experiments, indent=2))
        return
    click.echo(output.to_table(list(experiments.items()), _EXPERIMENT_COLUMNS))


@config.command(cls=FlagCommand)
@options.experiment_options
@click.option("--model-dir", metavar="DIR", help="Run whose config to show.")
@click.option("--provenance", is_flag=True, help="Say beside each value what set it.")
@output.json_option
def show(provenance: bool, as_json: bool, **flags: Any) -> None:
    """Show the config that an experiment, files and overrides give."""
    parse_options = options.build_parse_options(**flags)
    from quintain.config import run_header, yaml_io
    from quintain.run import experiment_parser

    parsed = experiment_parser.parse(parse_options, is_validated=False)
    params = parsed.params.as_dict()
    if as_json:
        if provenance:
            params = _with_sources(params, parsed.provenance)
        click.echo(json.dumps({run_header.EXPERIMENT_KEY: parsed.name, **params}, indent=2))
    else:
        text = yaml_io.dump({run_header.EXPERIMENT_KEY: parsed.name, **params})
        click.echo(_comment(text, parsed.provenance) if provenance else text, nl=False)
    try:
        parsed.validate()
    except errors.ConfigError as error:
        click.echo(f"It can't be trained like this: {error}", err=True)


@config.command(cls=FlagCommand)
@options.experiment_options
@click.option("--model-dir", metavar="DIR", help="Run whose experiment to describe.")
@click.option("-o", "--output", metavar="FILE", help="File to write; standard output by default.")
def schema(output: str | None, **flags: Any) -> None:
    """Write the JSON Schema of an experiment, with which editors complete YAML."""
    parse_options = options.build_parse_options(**flags)
    from quintain.config import json_schema, run_header
    from quintain.run import experiment_parser

    if not (flags["experiment"] or flags["config_file"] or flags["model_dir"]):
        raise click.UsageError("--experiment: missing; `quintain config list` shows the names.")
    params = experiment_parser.parse(parse_options, is_validated=False).params
    extra = {
        run_header.EXPERIMENT_KEY: {"type": "string"},
        run_header.IMPORTS_KEY: {"type": "array", "items": {"type": "string"}},
        run_header.DIRECTORIES_KEY: {"type": "object", "additionalProperties": {"type": "string"}},
    }
    output_lib.write_schema(json_schema.build_schema(params, extra_properties=extra), output)


@config.command(cls=FlagCommand)
@click.argument("first")
@click.argument("second")
@output.json_option
@click.option(
    "--import", "imports", multiple=True, metavar="MODULE", help="Module to import first."
)
def diff(first: str, second: str, as_json: bool, imports: tuple[str, ...]) -> None:
    """Show in what FIRST and SECOND differ.

    Each is an experiment, a run's directory or a YAML file. A file that names no experiment, such
    as one for --config-file, is compared with what it changes: it overrides the other one. Two of
    them are compared as they are.
    """
    options.build_parse_options()
    from quintain.config import provenance
    from quintain.run import experiment_parser

    experiment_parser.import_modules(imports)
    differences = provenance.diff_dicts(_load(first, second), _load(second, first))
    if as_json:
        click.echo(json.dumps([_to_entry(*difference) for difference in differences], indent=2))
        return
    for path, old, new in differences:
        click.echo(f"{path}: {old!r} -> {new!r}")
    if not differences:
        click.echo("No difference.", err=True)


def _to_entry(path: str, first: object, second: object) -> dict[str, object]:
    """Returns a difference as a mapping, without the side that has no such field."""
    from quintain.config import provenance

    entry = {"path": path, "first": first, "second": second}
    return {name: value for name, value in entry.items() if value is not provenance.MISSING}


def _load(name: str, other: str) -> dict[str, Any]:
    """Returns what one side of a comparison says, without asking whether it could be run.

    Args:
        name: The side: an experiment, a directory of a run or a YAML file.
        other: The other side, which a file that names no experiment overrides.
    """
    from quintain.core import exp_factory

    path = _find_file(name)
    if path is None:
        return exp_factory.get_exp_config(name).as_dict()
    experiment, changes, locate = _read(path)
    if experiment is not None:
        params = exp_factory.get_exp_config(experiment)
    elif (other_path := _find_file(other)) is None:
        params = exp_factory.get_exp_config(other)
    else:
        other_experiment, other_changes, locate_other = _read(other_path)
        if other_experiment is None:
            return changes
        params = exp_factory.get_exp_config(other_experiment)
        params.override_located(other_changes, locate_other)
    params.override_located(changes, locate)
    return params.as_dict()


def _find_file(name: str) -> str | None:
    """Returns the YAML file that `name` means, or None if it is the name of an experiment."""
    from quintain.run import run_files

    if file_io.isdir(name):
        return run_files.params_path(name)
    return name if file_io.exists(name) or name.endswith((".yaml", ".yml", ".json")) else None


def _read(path: str) -> tuple[str | None, dict[str, Any], Callable[[str], str]]:
    """Returns the experiment that a file names, its values, and where each of them stands."""
    from quintain.config import run_header, yaml_io
    from quintain.run import experiment_parser

    values, lines = yaml_io.load_file_with_lines(path)
    directories = values.pop(run_header.DIRECTORIES_KEY, None) or {}
    experiment_parser.import_modules(values.pop(run_header.IMPORTS_KEY, None) or (), directories)
    experiment = values.pop(run_header.EXPERIMENT_KEY, None)
    return experiment, values, lambda field: f"{path}:{yaml_io.find_line(lines, field)}"


def _with_sources(
    params: dict[str, Any], sources: "provenance.Provenance", prefix: str = ""
) -> dict[str, Any]:
    return {
        name: _with_sources(value, sources, f"{prefix}{name}.")
        if isinstance(value, dict) and value
        else {"value": value, "source": str(sources.source(f"{prefix}{name}"))}
        for name, value in params.items()
    }


def _comment(text: str, sources: "provenance.Provenance") -> str:
    """Adds to each leaf of YAML text a comment that names its source."""
    from quintain.config import yaml_io

    paths = {line: path for path, line in yaml_io.find_lines(text).items()}
    lines = text.splitlines()
    leaves = [number for number in paths if not lines[number - 1].rstrip().endswith(":")]
    width = min(max(len(lines[number - 1]) for number in leaves), 72)
    for number in leaves:
        line = lines[number - 1]
        lines[number - 1] = f"{line:<{width}}  # {sources.source(paths[number])}"
    return "\n".join(lines) + "\n"
