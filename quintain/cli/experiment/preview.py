"""`quintain experiment preview`: what a search would do, found out by simulating it."""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from quintain.cli import columns, options, output
from quintain.cli.experiment import file as experiment_file
from quintain.cli.lazy_group import FlagCommand
from quintain.records.config import experiment_spec
from quintain.records.rows import metric as metric_lib

if TYPE_CHECKING:
    from quintain.search import simulate as simulate_lib

_SHOWN_TRIALS: Final = 20
_HISTORY_TRIALS: Final = 5
_MAX_TRIALS: Final = 2000
_MAX_SECS: Final = 10.0
_QUIET_SECS: Final = 1.0


@dataclasses.dataclass(frozen=True)
class TrialPlan:
    """Plan of one trial."""

    number: int
    """Counts the trials from 1, in the order of their creation."""

    hparams: dict[str, object]
    """Its hyperparameters."""

    batches: int
    """Batches it would be trained on."""

    validations: tuple[int, ...]
    """Batches after which the search would ask for a validation."""

    parent: int | None = None
    """Number of the trial from whose checkpoint it would start."""

    replicate_of: int | None = None
    """Number of the trial that it would repeat with another seed."""


@dataclasses.dataclass(frozen=True)
class Preview:
    """Plan of a search."""

    searcher: str
    """The search method."""

    metric: str
    """What it goes by."""

    trials: tuple[TrialPlan, ...]
    """All trials, or the first ones."""

    num_trials: int
    """How many trials there would be."""

    is_extrapolated: bool
    """Whether `num_trials` and `total_batches` follow from the first trials alone."""

    max_concurrent_trials: int
    """Largest number of trials that would be open at once."""

    total_batches: int
    """Batches of all trials together."""

    chosen: str = ""
    """What `auto` would choose, and why; empty for other searches."""

    replicated: str = ""
    """Which trials would be trained again with further seeds; empty for none."""

    secs_per_batch: float | None = None
    """Time that a batch takes."""

    expected_secs: float | None = None
    """Time that the search would take on so many slots."""

    num_slots: int | None = None
    """Slots that `expected_secs` counts on."""

    measured_in: int | None = None
    """Experiment in which `secs_per_batch` was measured; None if it was given."""

    is_of_whole_trials: bool = False
    """Whether that has a share of starts, validations and checkpoints."""

    @property
    def rungs(self) -> list[dict[str, int]]:
        """Returns how many trials would stop at which length, shortest first."""
        counts: dict[int, int] = {}
        for trial in self.trials:
            counts[trial.batches] = counts.get(trial.batches, 0) + 1
        reached = len(self.trials)
        rungs = []
        for batches, count in sorted(counts.items()):
            rungs.append({"batches": batches, "reach": reached, "stop": count})
            reached -= count
        return rungs


@click.command(cls=FlagCommand)
@click.argument("config_file", metavar="CONFIG")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Repeatable.")
@options.template_option
@click.option(
    "--seconds-per-batch",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECS",
    help="Time of a batch; by default what experiments with this entrypoint took here.",
)
@click.option(
    "--slots",
    "num_slots",
    type=click.IntRange(min=1),
    metavar="N",
    help="Slots to count on; by default those of this machine.",
)
@click.option("--all", "show_all", is_flag=True, help="List all trials.")
@output.format_options
def preview(
    config_file: str,
    assignments: tuple[str, ...],
    template: str | None,
    seconds_per_batch: float | None,
    num_slots: int | None,
    show_all: bool,
    form: output.Form,
) -> None:
    r"""Show which trials a search would run, for how long, without running anything.

    Metrics are drawn at random: which trials go on is decided by the real ones, how many by the
    method.

    \b
    quintain experiment preview adaptive.yaml --seconds-per-batch 0.02
    """
    file = experiment_file.load(config_file, assignments, template)
    found = simulate(file.config)
    if seconds_per_batch is None:
        found = _measure_secs_per_batch(found, file.config.entrypoint)
    else:
        found = dataclasses.replace(found, secs_per_batch=seconds_per_batch)
    if found.secs_per_batch is not None:
        found = _with_times(found, file.config, found.secs_per_batch, num_slots)
    if form is output.Form.JSON:
        output.print_json({**vars(found), "rungs": found.rungs})
        return
    if form is output.Form.CSV:
        output.print_list(found.trials, _TRIAL_COLUMNS, form=form)
        return
    _print(found, show_all=show_all)


class _Patience:
    """Says when a simulation has gone on for long enough, and shows how far it is."""

    def __init__(self, max_secs: float) -> None:
        self._start = time.monotonic()
        self._max_secs = max_secs
        self._shown_at = _QUIET_SECS

    def is_over(self, done: "simulate_lib.Simulation") -> bool:
        secs = time.monotonic() - self._start
        if secs >= self._shown_at:
            self._shown_at += _QUIET_SECS
            click.echo(f"Simulating: {len(done.lengths):,} trials after {secs:.0f} s", err=True)
        return secs >= self._max_secs


def simulate(
    config: experiment_spec.ExperimentSpec,
    *,
    max_trials: int = _MAX_TRIALS,
    max_secs: float = _MAX_SECS,
) -> Preview:
    """Runs the search of a config with random metrics, or its beginning if it is long.

    Args:
        config: An `ExperimentConfig`.
        max_trials: Trials to simulate at most, or about so many.
        max_secs: Seconds to simulate at most.
    """
    from quintain.records.views import seeds
    from quintain.search import auto, replication, search_factory
    from quintain.search import simulate as simulate_lib

    config = search_factory.settle(config)
    replicate = config.searcher.replicate
    estimate = simulate_lib.estimate(config, max_trials, _Patience(max_secs).is_over)
    done, unit = estimate.done, config.searcher.batches_per_unit
    numbers = {name: number for number, name in enumerate(done.lengths, start=1)}
    trials = tuple(
        TrialPlan(
            number=numbers[name],
            hparams=done.hparams[name],
            batches=length * unit,
            validations=tuple(at * unit for at in done.validations[name]),
            parent=numbers.get(done.parents.get(name, "")),
            replicate_of=numbers[seeds.find_original(name)] if seeds.REPLICATE in name else None,
        )
        for name, length in done.lengths.items()
    )
    return Preview(
        searcher=config.searcher.name,
        metric=", ".join(columns.find_objectives(config.searcher.as_dict())),
        trials=trials,
        num_trials=estimate.num_trials,
        is_extrapolated=estimate.is_extrapolated,
        max_concurrent_trials=estimate.max_concurrent_trials,
        total_batches=estimate.total_length * unit,
        chosen=auto.describe(config.searcher),
        replicated=replication.describe(replicate) if replicate and replicate.top else "",
    )


def _with_times(
    found: Preview,
    config: experiment_spec.ExperimentSpec,
    secs_per_batch: float,
    num_slots: int | None,
) -> Preview:
    """Adds how long the search would take: no less than its longest trial."""
    slots = num_slots or _count_slots()
    limits = [slots, config.resources.max_slots or slots]
    at_once = max(min(limits) // max(config.resources.slots_per_trial, 1), 1)
    at_once = min(at_once, found.max_concurrent_trials)
    longest = max((trial.batches for trial in found.trials), default=0)
    secs = secs_per_batch * max(found.total_batches / at_once, longest)
    return dataclasses.replace(found, expected_secs=secs, num_slots=slots)


def _count_slots() -> int:
    from quintain.client.home import home as home_lib

    if home_lib.find_master(home_lib.find_home()) is not None:
        from quintain.cli import connect

        with connect.open_client(start=False) as client:
            return client.get_summary().num_slots
    from quintain.master.placing import slots

    return len(slots.find_slots())


def _measure_secs_per_batch(found: Preview, entrypoint: str | None) -> Preview:
    """Adds what a batch took in the newest experiment with an entrypoint, if there is one."""
    from quintain.cli import connect
    from quintain.client.home import home as home_lib
    from quintain.client.home import home_database

    home = home_lib.find_home()
    if home_lib.find_master(home) is None and not home_database.exists(home.path):
        return found
    with connect.open_calls() as calls:
        for experiment in reversed(calls.list_experiments(include_archived=True)):
            if experiment.config.get("entrypoint") != entrypoint:
                continue
            times: list[float] = []
            wholes: list[float] = []  # Trials of one workload are measured with all that they did.
            for trial in calls.list_trials(experiment.id)[-_HISTORY_TRIALS:]:
                times += _time_batches(
                    calls.list_metrics(trial.id, group=metric_lib.MetricGroup.TRAINING)
                )
                if trial.held_secs and trial.total_batches:
                    wholes.append(trial.held_secs / trial.total_batches)
            if times or wholes:
                return dataclasses.replace(
                    found,
                    secs_per_batch=statistics.median(times or wholes),
                    measured_in=experiment.id,
                    is_of_whole_trials=not times,
                )
    return found


def _time_batches(rows: Sequence[metric_lib.MetricRow]) -> list[float]:
    """Returns seconds per batch between workloads that followed each other."""
    return [
        (after.time - before.time) / (after.total_batches - before.total_batches)
        for before, after in itertools.pairwise(rows)
        if after.total_batches > before.total_batches and after.time > before.time
    ]


_TRIAL_COLUMNS: Final[tuple[output.Column[TrialPlan], ...]] = (
    output.Column("trial", lambda row: row.number),
    output.Column("batches", lambda row: row.batches),
    output.Column("validations", lambda row: row.validations, can_shrink=True),
    output.Column("from", lambda row: row.parent, is_optional=True),
    output.Column("again", lambda row: row.replicate_of, is_optional=True),
    output.Column("hparams", lambda row: row.hparams, can_shrink=True),
)

_RUNG_COLUMNS: Final[tuple[output.Column[dict[str, int]], ...]] = (
    output.Column("batches", lambda row: row["batches"]),
    output.Column("trials that reach it", lambda row: row["reach"]),
    output.Column("that stop there", lambda row: row["stop"]),
)


def _print(found: Preview, *, show_all: bool) -> None:
    fields: dict[str, object] = {
        "search": f"{found.searcher} by {found.metric}",
        "method": found.chosen,
        "trials": f"{'about ' if found.is_extrapolated else ''}{found.num_trials:,}",
        "further seeds": found.replicated and f"{found.replicated} (searcher.replicate)",
        "at once at most": found.max_concurrent_trials,
        "batches": f"{'about ' if found.is_extrapolated else ''}{found.total_batches:,}",
    }
    if found.is_extrapolated:
        fields["simulated"] = (
            f"the first {len(found.trials):,} trials, which are those below; the numbers above "
            "are extrapolated from the method and these trials"
        )
    if found.expected_secs is not None:
        origin = ""
        if found.measured_in is not None:
            all_else = "with starts and" if found.is_of_whole_trials else "without"
            origin = f", measured in experiment {found.measured_in}, {all_else} validations"
        fields["expected time"] = (
            f"{output.format_secs(found.expected_secs)} on {found.num_slots} "
            f"slot{'s' if found.num_slots != 1 else ''} "
            f"({output.format_value(found.secs_per_batch)} s a batch{origin})"
        )
    output.print_fields(fields)
    click.echo()
    click.echo(output.to_table(found.rungs, _RUNG_COLUMNS))
    click.echo()
    shown = found.trials if show_all else found.trials[:_SHOWN_TRIALS]
    click.echo(output.to_table(shown, _TRIAL_COLUMNS))
    if len(shown) < len(found.trials):
        click.echo(f"... and {len(found.trials) - len(shown)} more (--all lists them)")
