"""`quintain trial`: shows and steers the points of searches."""

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import click

from quintain.cli import columns, connect, logs, output, record_ids
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.client import calls as calls_lib
from quintain.records.rows import checkpoint, log, metric
from quintain.terminal import printable

_FOLLOW_SECS: Final = 0.5
_PAGE: Final = 1000

_METRIC_COLUMNS: Final[tuple[output.Column[metric.MetricRow], ...]] = (
    output.Column("batches", lambda row: row.total_batches),
    output.Column("group", lambda row: row.group.value),
    output.Column("metrics", lambda row: row.metrics, can_shrink=True),
    output.Column("num_inputs", lambda row: row.num_inputs),
    output.Column("time", lambda row: row.time, output.format_time),
)
_BATCH_COLUMN: Final[output.Column[metric.BatchRow]] = output.Column("batch", lambda row: row.batch)
_VALIDATION_COLUMNS: Final = (_METRIC_COLUMNS[0], *_METRIC_COLUMNS[2:])
_OWN_CHECKPOINT_COLUMNS: Final = (
    columns.CHECKPOINT_COLUMNS[0],
    *columns.CHECKPOINT_COLUMNS[3:],
)


@click.group(
    cls=LazyGroup,
    sections={
        "Commands": {
            "list": (
                "quintain.cli.experiment.trials:list_trials",
                "List trials, of one experiment or of all.",
            )
        }
    },
)
def trial() -> None:
    """Show and steer trials, the points of searches."""
    logs.set_up(is_verbose=False)


@trial.command(cls=FlagCommand)
@record_ids.trial_argument
@click.option("--all", "-a", "shows_all", is_flag=True, help="Deleted checkpoints, too.")
@output.format_options
def describe(trial_id: int, shows_all: bool, form: output.Form) -> None:
    """Show a trial with its validations and checkpoints."""
    with connect.open_calls() as calls:
        found = calls.get_trial(trial_id)
        validations = calls.list_metrics(trial_id, group=metric.MetricGroup.VALIDATION)
        checkpoints = calls.list_checkpoints(trial_id=trial_id)
    if form is output.Form.CSV:
        output.print_list([found], columns.TRIAL_COLUMNS, form=form)
        return
    if form is output.Form.JSON:
        output.print_json({"trial": found, "validations": validations, "checkpoints": checkpoints})
        return
    output.print_fields(
        {
            "trial": found.id,
            "experiment": found.experiment_id,
            "state": found.state.value,
            "reason": found.reason,
            "note": found.note or None,
            "hyperparameters": "\n".join(columns.flatten_hparams(found.hparams)),
            "seed": found.seed,
            "batches": found.total_batches,
            "best metric": found.best_metric,
            "latest metric": found.latest_metric,
            "restarts": found.restarts or None,
            "started from trial": found.parent_trial_id,
            "started": output.format_time(found.start_time),
            "ended": output.format_time(found.end_time),
            "took": output.format_secs(found.find_duration(time.time())),
        }
    )
    if validations:
        click.echo("\nValidations")
        click.echo(output.to_table(validations, _VALIDATION_COLUMNS))
    _print_checkpoints(checkpoints, shows_all=shows_all)


def _print_checkpoints(found: Sequence[checkpoint.Checkpoint], *, shows_all: bool) -> None:
    """Prints checkpoints, and of those that were deleted only how many there are."""
    if not found:
        return
    is_deleted = checkpoint.CheckpointState.DELETED
    shown = [each for each in found if shows_all or each.state is not is_deleted]
    click.echo("\nCheckpoints")
    if shown:
        click.echo(output.to_table(shown, _OWN_CHECKPOINT_COLUMNS))
    if len(shown) < len(found):
        click.echo(f"{len(found) - len(shown)} were deleted; --all shows them.")


@trial.command("logs", cls=FlagCommand)
@record_ids.trial_argument
@click.option("--follow", "-f", is_flag=True, help="Go on until the trial has ended.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option(
    "--source",
    type=click.Choice([source.value for source in log.LogSource]),
    help="Only lines from there.",
)
@click.option("--grep", metavar="TEXT", help="Only lines that contain this.")
@click.option("--timestamps", "-t", is_flag=True, help="Put time and source before each line.")
@output.format_options
def show_logs(
    trial_id: int,
    follow: bool,
    tail: int | None,
    source: str | None,
    grep: str | None,
    timestamps: bool,
    form: output.Form,
) -> None:
    """Show what a trial wrote."""
    which = log.LogFilter(
        limit=_PAGE, source=None if source is None else log.LogSource(source), contains=grep
    )
    if follow and form is not output.Form.TABLE:
        raise click.UsageError("--follow: got together with --json or --csv, which need an end.")
    if form is not output.Form.TABLE:
        rows = connect.ask(lambda calls: _read_all(calls, trial_id, tail, which))
        output.print_list(rows, _LOG_COLUMNS, form=form)
        return
    last_id = 0
    if tail is not None:
        newest = _choose_newest(which, tail)
        rows = connect.ask(lambda calls: calls.list_logs(trial_id, newest))
        last_id = _print_lines(rows, last_id, with_times=timestamps)
    while tail is None or follow:
        has_ended = connect.ask(lambda calls: calls.get_trial(trial_id)).state.is_terminal
        last_id = _print_new(trial_id, last_id, which, with_times=timestamps)
        if has_ended or not follow:
            return
        time.sleep(_FOLLOW_SECS)


_LOG_COLUMNS: Final[tuple[output.Column[log.LogRow], ...]] = (
    output.Column("time", lambda row: row.time),
    output.Column("source", lambda row: row.source.value),
    output.Column("text", lambda row: row.text),
)


def _read_all(
    calls: calls_lib.Calls, trial_id: int, tail: int | None, which: log.LogFilter
) -> list[log.LogRow]:
    if tail is not None:
        return calls.list_logs(trial_id, _choose_newest(which, tail))
    rows: list[log.LogRow] = []
    while page := calls.list_logs(trial_id, which):
        rows += page
        which = dataclasses.replace(which, after=page[-1].id)
    return rows


def _choose_newest(which: log.LogFilter, count: int) -> log.LogFilter:
    return dataclasses.replace(which, last=count, limit=max(count, 1))


def _print_new(trial_id: int, last_id: int, which: log.LogFilter, *, with_times: bool) -> int:
    """Prints all lines after a number and returns the number of the last one."""

    def read(calls: calls_lib.Calls) -> list[log.LogRow]:
        return calls.list_logs(trial_id, dataclasses.replace(which, after=last_id))

    while page := connect.ask(read):
        last_id = _print_lines(page, last_id, with_times=with_times)
    return last_id


def _print_lines(rows: list[log.LogRow], last_id: int, *, with_times: bool) -> int:
    # A file or another program gets what the trial wrote.
    show = printable.clean if sys.stdout.isatty() else str
    for row in rows:
        before = f"{output.format_time(row.time)} {row.source.value:<6} " if with_times else ""
        click.echo(f"{before}{show(row.text)}")
    return rows[-1].id if rows else last_id


@trial.command("metrics", cls=FlagCommand)
@record_ids.trial_argument
@click.option(
    "--group",
    type=click.Choice([group.value for group in metric.MetricGroup]),
    help="What they are about; training and validation by default.",
)
@click.option("--batches", "by_batch", is_flag=True, help="A line for each batch of training.")
@output.format_options
def show_metrics(trial_id: int, group: str | None, by_batch: bool, form: output.Form) -> None:
    """Show the metrics of a trial, a line for each workload."""
    if by_batch:
        if group is not None:
            raise click.UsageError("--batches: got together with --group; leave one of them out.")
        _show_batches(trial_id, form=form)
        return
    with connect.open_calls() as calls:
        rows = calls.list_metrics(
            trial_id, group=None if group is None else metric.MetricGroup(group)
        )
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    shown = [
        _METRIC_COLUMNS[0],
        _METRIC_COLUMNS[1],
        *(output.Column[metric.MetricRow](name, _metric_getter(name)) for name in names),
    ]
    if form is output.Form.CSV:
        shown += _METRIC_COLUMNS[3:]
    output.print_list(rows, shown, form=form, if_empty=f"Trial {trial_id} has reported no metrics.")


def _show_batches(trial_id: int, *, form: output.Form) -> None:
    rows = connect.ask(lambda calls: calls.list_batch_metrics(trial_id))
    names = dict.fromkeys(name for row in rows for name in row.metrics)
    output.print_list(
        rows,
        [
            _BATCH_COLUMN,
            *(output.Column[metric.BatchRow](name, _metric_getter(name)) for name in names),
        ],
        form=form,
        if_empty=f"Trial {trial_id} has reported no metrics of single batches.",
    )


def _metric_getter(name: str) -> Callable[[metric.MetricRow | metric.BatchRow], object]:
    return lambda row: row.metrics.get(name)


@trial.command(cls=FlagCommand)
@record_ids.trial_argument
@click.argument("text", required=False)
def note(trial_id: int, text: str | None) -> None:
    r"""Write a note on a trial, in place of the one that it has; without TEXT, show it.

    \b
    quintain trial note 7 "diverged until the warm-up was longer"
    quintain trial list 1 --where 'note ~ "warm-up"'
    """
    if text is None:
        found = connect.ask(lambda calls: calls.get_trial(trial_id)).note
        click.echo(printable.clean(found) if sys.stdout.isatty() else found)
        return
    with connect.open_client() as client:
        client.note_trial(trial_id, text)
    click.echo(f"Noted for trial {trial_id}." if text else f"Trial {trial_id} has no note now.")


@trial.command(cls=FlagCommand)
@click.argument(
    "trial_ids",
    metavar="ID...",
    type=int,
    nargs=-1,
    required=True,
    shell_complete=record_ids.complete_trial,
)
def kill(trial_ids: tuple[int, ...]) -> None:
    """End trials at once; their experiments go on."""
    with connect.open_client() as client:
        for number in trial_ids:
            client.kill_trial(number)
            click.echo(f"Killing trial {number}.")


@trial.command(cls=FlagCommand)
@record_ids.trial_argument
@output.json_option
def rerun(trial_id: int, as_json: bool) -> None:
    """Create an experiment of one trial with the hyperparameters and the seed of this one."""
    with connect.open_client() as client:
        experiment = client.rerun_trial(trial_id)
    text = f"Created experiment {experiment.id}, which runs trial {trial_id} again."
    output.print_record(experiment, text, as_json=as_json)


@trial.command("continue", cls=FlagCommand)
@record_ids.trial_argument
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Repeatable.")
@output.json_option
def continue_(trial_id: int, assignments: tuple[str, ...], as_json: bool) -> None:
    r"""Create an experiment of one trial that begins with the newest checkpoint of this one.

    It trains as many batches as this one has.

    \b
    quintain trial continue 7 --set searcher.max_length=1000
    """
    with connect.open_client() as client:
        experiment = client.continue_trial(trial_id, assignments)
    text = f"Created experiment {experiment.id}, which goes on with trial {trial_id}."
    output.print_record(experiment, text, as_json=as_json)
