"""`quintain migrate certify`: shows that a port equals the older model, or where it differs."""

import json
import pathlib

import click

from quintain import errors
from quintain.cli import logs, output
from quintain.cli.lazy_group import FlagCommand
from quintain.files import atomic_write

_PATH = click.Path(path_type=pathlib.Path, dir_okay=False)


@click.command(cls=FlagCommand)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option("--batch", type=_PATH, help="Archive .npz: x or named columns, y, sample_weight.")
@click.option("--batch-size", type=click.IntRange(2, 65_536), default=32, show_default=True)
@click.option(
    "--map",
    "map_path",
    type=_PATH,
    help="Map of the variables as JSON: read if it is there, else written.",
)
@click.option(
    "--seeds",
    type=click.IntRange(2, 30),
    default=5,
    show_default=True,
    help="Pairs of short trainings.",
)
@click.option(
    "--steps",
    type=click.IntRange(1, 1_000_000),
    default=200,
    show_default=True,
    help="Steps of a short training.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(1e-9, 0.1),
    default=1e-6,
    show_default=True,
    help="Largest difference that counts as equal, unless rounding alone makes larger ones.",
)
@click.option("--report", type=_PATH, help="Write a page of HTML.")
@output.json_option
@click.pass_context
def certify(
    context: click.Context,
    old: str,
    new: str,
    batch: pathlib.Path | None,
    batch_size: int,
    map_path: pathlib.Path | None,
    seeds: int,
    steps: int,
    tolerance: float,
    report: pathlib.Path | None,
    as_json: bool,
) -> None:
    r"""Compare an older model with its port to Keras 3, up to the first place that differs.

    OLD is code for Keras 2, an Estimator, its model_fn, or a function of features and labels that
    returns (loss, train_op); NEW returns a compiled Keras 3 model. Both are FILE.py:FUNCTION. The
    batches come from --batch, or from a function batches() of NEW's file.

    Weights are copied from OLD to NEW. A difference ends it with exit code 1.

    \b
    quintain migrate certify old.py:model_fn new.py:build_model --batch data.npz
    """
    logs.set_up(is_verbose=False)
    from quintain.certify import certify as comparison
    from quintain.certify import variable_map

    for path in (map_path, report):
        if path is not None and not path.absolute().parent.is_dir():
            raise errors.ConfigError(f"{path}: there is no directory {path.absolute().parent}.")
    options = comparison.Options(
        batch=batch, batch_size=batch_size, map=map_path, seeds=seeds, steps=steps,
        tolerance=tolerance,
    )  # fmt: skip
    found = comparison.certify(old, new, options)
    if map_path is not None and not map_path.exists():
        text = variable_map.to_json(found.map)
        atomic_write.write_atomically(map_path, text.encode(), mode=0o644)
    if report is not None:
        atomic_write.write_atomically(report, found.to_html().encode(), mode=0o644)
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else found.to_text())
    context.exit(0 if found.is_equivalent else 1)
