"""`quintain experiment pareto`: the trials that are best in several metrics at once."""

from collections.abc import Mapping
from typing import Any, Final

import click

from quintain.cli import columns, connect, options, output
from quintain.cli.lazy_group import FlagCommand
from quintain.records.views import pareto as pareto_lib
from quintain.records.views import trial_names, trial_table

_DIRECTIONS: Final = {"min": True, "max": False}


@click.command(cls=FlagCommand)
@click.argument("experiment_id", metavar="ID", type=int)
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="METRIC:min|max",
    help="A metric that decides, such as accuracy:max. Repeatable; those of the search by default.",
)
@output.format_options
@options.traceback_option
def pareto(experiment_id: int, objectives: tuple[str, ...], as_json: bool, as_csv: bool) -> None:
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
    front = pareto_lib.find_front(list(zip(*values, strict=True)), list(chosen.values()))
    hparams = [name for name in named if name.startswith(trial_names.HPARAMS)]
    rows = [
        {
            "id": named["id"][row],
            **{name: column[row] for name, column in zip(chosen, values, strict=True)},
            **{trial_names.shorten(name): named[name][row] for name in hparams},
            "checkpoint": named["latest_checkpoint"][row],
        }
        for row in front
    ]
    names = rows[0] if rows else {}
    output.print_list(
        rows,
        [_to_column(name) for name in names],
        as_json=as_json,
        as_csv=as_csv,
        if_empty=f"Experiment {experiment_id}: no trial has all of {', '.join(chosen)} yet.",
    )


def _to_column(name: str) -> output.Column[dict[str, Any]]:
    return output.Column(name, lambda row: row[name], can_shrink=True)


def _parse(text: str) -> tuple[str, bool]:
    name, _, direction = text.rpartition(":")
    if not name or direction not in _DIRECTIONS:
        raise click.UsageError(f"--objective: got {text!r}, expected METRIC:min or METRIC:max.")
    return name, _DIRECTIONS[direction]


def _find_column(name: str, named: Mapping[str, Any]) -> str:
    """Returns the column of the newest values of a metric."""
    full = trial_table.find(name, named, "--objective")
    return f"{full.removesuffix('.best')}.last" if full.endswith(".best") else full
