"""`quintain experiment pareto`: the trials that are best in several metrics at once."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from quintain.cli import columns, connect, output, record_ids
from quintain.cli.lazy_group import FlagCommand
from quintain.records.views import trial_names, trial_table

_DIRECTIONS: Final = {"min": True, "max": False}


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="METRIC:min|max",
    help="A metric that decides, such as accuracy:max. Repeatable; those of the search by default.",
)
@output.format_options
def pareto(experiment_id: int, objectives: tuple[str, ...], form: output.Form) -> None:
    """Show the Pareto front: trials that no other trial beats in all metrics.

    The newest validation of each trial counts.
    """
    with connect.open_calls() as calls:
        chosen = dict(map(_parse, objectives)) or columns.find_objectives(
            calls.get_experiment(experiment_id).config.get("searcher", {})
        )
        table = calls.get_table(experiment_id)
    if len(chosen) < 2:
        raise click.UsageError(
            f"--objective: experiment {experiment_id} searches for one metric only, "
            f"{next(iter(chosen), 'none')}; expected --objective twice, such as "
            "--objective accuracy:max --objective loss:min."
        )
    named = table.name_all()
    values = [named[_find_column(name, named)] for name in chosen]
    front = find_front(list(zip(*values, strict=True)), list(chosen.values()))
    hparams = trial_names.shorten_paths(table.hparams, ("id", "checkpoint", *chosen))
    rows = [
        {
            "id": named["id"][row],
            **{name: column[row] for name, column in zip(chosen, values, strict=True)},
            **{name: table.hparams[path][row] for path, name in hparams.items()},
            "checkpoint": named["latest_checkpoint"][row],
        }
        for row in front
    ]
    names = rows[0] if rows else {}
    output.print_list(
        rows,
        [output.key_column(name) for name in names],
        form=form,
        if_empty=f"Experiment {experiment_id}: no trial has all of {', '.join(chosen)} yet.",
    )


def _parse(text: str) -> tuple[str, bool]:
    name, _, direction = text.rpartition(":")
    if not name or direction not in _DIRECTIONS:
        raise click.UsageError(f"--objective: got {text!r}, expected METRIC:min or METRIC:max.")
    return name, _DIRECTIONS[direction]


def _find_column(name: str, named: Mapping[str, Any]) -> str:
    """Returns the column of the newest values of a metric."""
    full = trial_table.find(name, named, "--objective")
    return f"{full.removesuffix('.best')}.last" if full.endswith(".best") else full


def find_front(values: Sequence[Sequence[Any]], smaller_is_better: Sequence[bool]) -> list[int]:
    """Returns the rows than which no other one is better in one metric and as good in all others.

    Equal rows are all there. Rows in which a value is missing or not a finite number are not.

    Args:
        values: For each row the values of the metrics; None where there is none.
        smaller_is_better: For each metric, whether smaller values are better.

    Returns:
        The numbers of the rows, the best in the first metric first.

    Example:
        >>> find_front([(1, 5), (2, 4), (2, 6), (3, None), (1, 5)], [True, True])
        [0, 4, 1]
    """
    points = []
    for row, one in enumerate(values):
        if all(isinstance(value, int | float) and math.isfinite(value) for value in one):
            signs = zip(one, smaller_is_better, strict=True)
            points.append((tuple(value if smaller else -value for value, smaller in signs), row))
    front: list[tuple[tuple[float, ...], int]] = []
    # A row can be dominated only by one that is not after it in lexical order.
    for point, row in sorted(points):
        if not any(
            other != point and all(a <= b for a, b in zip(other, point, strict=True))
            for other, _ in front
        ):
            front.append((point, row))
    return [row for _, row in front]
