"""`quintain trial list` and `experiment importance`: many trials, and what they tell."""

from collections.abc import Sequence
from typing import Any

import click

from quintain.cli import columns, connect, options, output, record_ids
from quintain.cli.lazy_group import FlagCommand
from quintain.records.rows import states
from quintain.records.views import importance as importance_lib
from quintain.records.views import trial_table

_ALL = "all"


@click.command("list", cls=FlagCommand)
@record_ids.optional_experiment_argument
@options.state_option(states.TrialState)
@click.option(
    "--where",
    default="",
    metavar="EXPRESSION",
    help="Only trials that it chooses: 'accuracy > 0.9 and optimizer in (adam, lamb)'.",
)
@click.option(
    "--sort",
    default="",
    metavar="NAMES",
    help="Columns to sort by, divided by commas; -accuracy sorts backwards.",
)
@click.option(
    "--columns",
    "column_names",
    default="",
    metavar="NAMES",
    help="Columns to show, divided by commas, like id,learning_rate,accuracy,training/loss.last; "
    f"{_ALL!r} shows all.",
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most so many.")
@click.option(
    "--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Leave out so many first."
)
@output.format_options
def list_trials(
    experiment_id: int | None,
    state_names: tuple[str, ...],
    where: str,
    sort: str,
    column_names: str,
    limit: int | None,
    offset: int,
    form: output.Form,
) -> None:
    """List trials, of one experiment or of all.

    Names in expressions are columns (state, total_batches, duration), hyperparameters, and metrics:
    accuracy is the best validation/accuracy of a trial, training/loss.last the newest one. CSV has
    a column for each hyperparameter and metric.
    """
    is_chosen = bool(where or sort or limit is not None or offset)
    found: Sequence[Any]
    shown: Sequence[output.Column[Any]] = columns.OWN_TRIAL_COLUMNS
    if experiment_id is None:
        if is_chosen or column_names:
            raise click.UsageError(
                "--where, --sort, --columns, --limit and --offset are for the trials of one "
                "experiment. Give its number, too."
            )
        chosen = [states.TrialState(name) for name in state_names]
        with connect.open_calls() as calls:
            found = calls.list_trials(state_names=chosen)
        shown = columns.TRIAL_COLUMNS
        output.print_list(found, shown, form=form, if_empty="No trials.")
        return
    if state_names:
        is_chosen = True
        in_states = f"state in ({', '.join(state_names)})"
        where = f"({where}) and {in_states}" if where else in_states
    selection = trial_table.Selection(where, sort, limit, offset)
    if_empty = f"Experiment {experiment_id} has no {'such trials' if is_chosen else 'trials yet'}."
    with connect.open_calls() as calls:
        if column_names or form is output.Form.CSV:
            table = calls.get_table(experiment_id)
            found, shown = _choose_columns(table, selection, column_names or _ALL)
        elif is_chosen:
            found = calls.select_trials(experiment_id, selection)
        else:
            found = calls.list_trials(experiment_id)
    output.print_list(found, shown, form=form, if_empty=if_empty)


def _choose_columns(
    table: trial_table.TrialTable, selection: trial_table.Selection, column_names: str
) -> tuple[list[dict[str, Any]], list[output.Column[dict[str, Any]]]]:
    """Returns values by the names of the columns, and the columns to show."""
    rows = selection.cut(table.select(selection.where, selection.sort))
    named = table.name_all()
    names = [name.strip() for name in column_names.split(",") if name.strip()]
    if names == [_ALL]:
        names = table.list_names()
    chosen = [(name, named[trial_table.find(name, named, "--columns")]) for name in names]
    found = [{name: values[row] for name, values in chosen} for row in rows]
    return found, [output.key_column(name) for name in names]


_COLUMNS: tuple[output.Column[tuple[str, float]], ...] = (
    output.Column("hyperparameter", lambda row: row[0]),
    output.Column("importance", lambda row: row[1], lambda share: f"{100 * share:.1f} %"),
)


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
@click.option("--metric", default="", metavar="NAME", help="The searched one by default.")
@click.option(
    "--evaluator",
    type=click.Choice([one.value for one in importance_lib.Evaluator]),
    default=importance_lib.Evaluator.AUTO.value,
    show_default=True,
    help="How it is measured; fanova and mdi need scikit-learn.",
)
@output.format_options
def importance(experiment_id: int, metric: str, evaluator: str, form: output.Form) -> None:
    """Show how much each hyperparameter decides about a metric."""
    with connect.open_calls() as calls:
        found = calls.get_importances(
            experiment_id,
            metric_name=metric,
            evaluator=importance_lib.Evaluator(evaluator),
        )
    if form is output.Form.JSON:
        output.print_json(found)
        return
    if found.problem:
        raise click.ClickException(f"Experiment {experiment_id}: {found.problem}")
    output.print_list(found.importances, _COLUMNS, form=form)
    if form is output.Form.TABLE:
        click.echo(f"\nBy {found.evaluator.value}, of {found.num_trials} trials.")
