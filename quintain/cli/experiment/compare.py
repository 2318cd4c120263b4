"""`quintain experiment compare`: compares two experiments, trials or runs over their seeds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import click

from quintain.cli import columns, connect, output
from quintain.cli.experiment import run_comparison
from quintain.cli.lazy_group import FlagCommand
from quintain.client import calls as calls_lib
from quintain.records.views import seeds


@click.command(cls=FlagCommand)
@click.argument("first")
@click.argument("second")
@click.option("--trials", "is_of_trials", is_flag=True, help="The numbers are those of trials.")
@click.option(
    "--metric",
    metavar="NAME:min|max",
    help="Metric of runs; by default the one that chooses the best checkpoint.",
)
@output.json_option
def compare(first: str, second: str, is_of_trials: bool, metric: str | None, as_json: bool) -> None:
    r"""Say which of two experiments, trials or runs is better, and whether by chance.

    Experiments are compared by their best settings, trials with all further seeds of theirs, and
    directories of runs with those beside them that differ in seeds only. Seeds that both were
    trained with are pairs, as those of experiments that have the same
    reproducibility.experiment_seed and searcher.replicate.

    \b
    quintain experiment compare 3 7
    quintain experiment compare --trials 12 15
    quintain experiment compare runs/adam-1 runs/muon-1 --metric=accuracy:max
    """
    if not first.isdecimal() and not second.isdecimal() and not is_of_trials:
        run_comparison.compare(first, second, metric, as_json=as_json)
        return
    if metric:
        raise click.UsageError("--metric: experiments and trials are compared by searcher.metric.")
    _compare_numbers(
        _to_number(first), _to_number(second), is_of_trials=is_of_trials, as_json=as_json
    )


def _to_number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise click.UsageError(f"got {text!r}, expected two numbers, or two directories of runs.")
    return int(text)


def _compare_numbers(first: int, second: int, *, is_of_trials: bool, as_json: bool) -> None:
    with connect.open_calls() as calls:
        ours, ranked, searcher = _find_setting(calls, first, is_of_trials=is_of_trials)
        theirs, _, other = _find_setting(calls, second, is_of_trials=is_of_trials)
    for name in ("metric", "smaller_is_better"):
        if searcher.get(name) != other.get(name):
            raise click.ClickException(
                f"{first} and {second} have no common measure: searcher.{name} is "
                f"{searcher.get(name)!r} and {other.get(name)!r}. Compare those of one metric."
            )
    if ours == theirs:
        raise click.ClickException(
            f"{first} and {second} differ in nothing but seeds. Compare different settings."
        )
    is_of_one = ours.trials[0].experiment_id == theirs.trials[0].experiment_id
    lead = seeds.find_lead(ours, theirs, ranked if is_of_one else (), searcher)
    if as_json:
        standings = (seeds.to_standing(ours, lead), seeds.to_standing(theirs))
        output.print_json([dataclasses.asdict(one) for one in standings])
        return
    word = "trial" if is_of_trials else "experiment"
    fields = {
        f"{word} {number}": _describe(seeds.to_standing(setting), searcher)
        for number, setting in ((first, ours), (second, theirs))
    }
    output.print_fields({**fields, f"{first} is": lead.text})


def _find_setting(
    calls: calls_lib.Calls, number: int, *, is_of_trials: bool
) -> tuple[seeds.Setting, list[seeds.Setting], Mapping[str, Any]]:
    """Returns a setting, all of its experiment, and the searcher of that."""
    experiment_id = calls.get_trial(number).experiment_id if is_of_trials else number
    searcher = calls.get_experiment(experiment_id).config.get("searcher", {})
    ranked = seeds.rank_settings(calls.list_trials(experiment_id), searcher)
    for setting in ranked:
        if not is_of_trials or any(one.id == number for one in setting.trials):
            return setting, ranked, searcher
    what = f"Trial {number} was not" if is_of_trials else f"Experiment {number}: no trial was"
    raise click.ClickException(f"{what} validated yet.")


def _describe(standing: seeds.Standing, searcher: Mapping[str, Any]) -> str:
    fields = columns.describe_standing(standing, searcher).items()
    told = "".join(f"{name} {text}" for name, text in fields)
    trials = ", ".join(map(str, standing.trial_ids))
    value = told or seeds.format_metric(standing.mean, searcher)
    return f"{searcher.get('metric')} {value} (trial {trials})"
