"""`quintain experiment list|describe|best|...`: what there is."""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from quintain.cli import columns, connect, options, output, record_ids
from quintain.cli.lazy_group import FlagCommand
from quintain.records import rows as kinds
from quintain.records import team, views
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import states
from quintain.terminal import printable

if TYPE_CHECKING:
    from quintain.records.config import provenance as provenance_lib


def _name_project(row: experiment_lib.Experiment) -> str:
    return "" if row.project == team.DEFAULT_PROJECT else row.project


_EXPERIMENT_COLUMNS: Final[tuple[output.Column[experiment_lib.Experiment], ...]] = (
    output.Column("id", lambda row: row.id),
    output.Column("name", columns.name_of, can_shrink=True),
    output.Column("from", lambda row: row.parent_id, is_optional=True),
    output.Column("state", lambda row: row.state.value),
    output.Column("progress", lambda row: row.progress, output.format_percent),
    output.Column("started", lambda row: row.start_time, output.format_time),
    output.Column("ended", lambda row: row.end_time, output.format_time, is_optional=True),
    output.Column("searcher", lambda row: row.config.get("searcher", {}).get("name")),
    output.Column("project", _name_project, can_shrink=True, is_optional=True),
    output.Column("labels", lambda row: row.labels, can_shrink=True, is_optional=True),
    output.Column("archived", lambda row: row.is_archived, is_optional=True),
)


@click.command("list", cls=FlagCommand)
@click.option("--all", "-a", "include_archived", is_flag=True, help="Archived ones, too.")
@options.state_option(states.ExperimentState)
@click.option("--label", "labels", multiple=True, help="Only those with this label. Repeatable.")
@click.option(
    "--project", "projects", multiple=True, help="Only those of this project. Repeatable."
)
@click.option("--tree", is_flag=True, help="Each below the one that it was made from.")
@output.format_options
def list_experiments(
    include_archived: bool,
    state_names: tuple[str, ...],
    labels: tuple[str, ...],
    projects: tuple[str, ...],
    tree: bool,
    form: output.Form,
) -> None:
    """List experiments."""
    with connect.open_calls() as calls:
        found = calls.list_experiments(
            include_archived=include_archived,
            state_names=[states.ExperimentState(name) for name in state_names],
            labels=labels,
            projects=projects,
        )
    shown = _EXPERIMENT_COLUMNS
    if tree:
        depths = _find_depths(found)
        by_id = {row.id: row for row in found}
        found = [by_id[number] for number in depths]
        if form is output.Form.TABLE:
            indented = output.Column[experiment_lib.Experiment](
                "name",
                lambda row: "  " * depths[row.id] + str(columns.name_of(row)),
                can_shrink=True,
            )
            shown = (shown[0], indented, *shown[2:])
    output.print_list(found, shown, form=form, if_empty="There are no experiments.")


def _find_depths(found: Sequence[experiment_lib.Experiment]) -> dict[int, int]:
    """Returns how deep experiments lie in their tree, each below its parent if that is listed."""
    known = {row.id for row in found}
    children: dict[int | None, list[int]] = {}
    for row in found:
        parent = row.parent_id if row.parent_id in known else None
        children.setdefault(parent, []).append(row.id)
    depths: dict[int, int] = {}
    waiting = [(number, 0) for number in reversed(children.get(None, ()))]
    while waiting:
        number, depth = waiting.pop()
        depths[number] = depth
        waiting += [(child, depth + 1) for child in reversed(children.get(number, ()))]
    return depths


@click.command(cls=FlagCommand)
@record_ids.experiments_argument
@click.option("--provenance", is_flag=True, help="Show where they come from: code and machine.")
@output.format_options
def describe(experiment_ids: tuple[int, ...], provenance: bool, form: output.Form) -> None:
    """Show experiments with their trials."""
    if provenance and form is output.Form.CSV:
        raise click.UsageError("--provenance: got together with --csv; use --json.")
    with connect.open_calls() as calls:
        if provenance:
            origins = {str(number): calls.get_provenance(number) for number in experiment_ids}
            if form is output.Form.JSON:
                output.print_json(origins)
                return
            for number, origin in origins.items():
                _print_provenance(number, origin)
            return
        found = [calls.get_experiment(number) for number in experiment_ids]
        if form is not output.Form.TABLE:
            output.print_list(found, _EXPERIMENT_COLUMNS, form=form)
            return
        others = calls.list_experiments(include_archived=True)
        for index, experiment in enumerate(found):
            if index:
                click.echo()
            trials = calls.list_trials(experiment.id)
            children = [row.id for row in others if row.parent_id == experiment.id]
            _print_experiment(experiment, trials, children)


def _print_experiment(
    experiment: experiment_lib.Experiment,
    trials: Sequence[kinds.trial.TrialRecord],
    children: Sequence[int],
) -> None:
    searcher = experiment.config.get("searcher", {})
    best = views.seeds.find_best(trials, searcher)
    resources = experiment.config.get("resources", {})
    output.print_fields(
        {
            "experiment": experiment.id,
            "name": columns.name_of(experiment),
            "description": ""
            if experiment.description == columns.name_of(experiment)
            else experiment.description,
            "state": experiment.state.value + (" (archived)" if experiment.is_archived else ""),
            "reason": experiment.reason,
            "progress": output.format_percent(experiment.progress),
            "best": "" if best is None else columns.describe_best(best, searcher),
            "search": columns.describe_search(searcher),
            "entrypoint": experiment.config.get("entrypoint"),
            "slots per trial": resources.get("slots_per_trial"),
            "max slots": resources.get("max_slots"),
            "project": _name_project(experiment),
            "labels": experiment.labels,
            "forked from": experiment.parent_id,
            "shared trials": len(searcher.get("inherited", ())) or None,
            "children": ", ".join(map(str, children)),
            "started": output.format_time(experiment.start_time),
            "ended": output.format_time(experiment.end_time),
            "trials": columns.count_states(trials),
        }
    )
    if trials:
        click.echo()
        click.echo(output.to_table(trials, columns.OWN_TRIAL_COLUMNS))


def _print_provenance(number: str, origin: provenance_lib.Provenance) -> None:
    git = origin.git
    output.print_fields(
        {
            "experiment": number,
            "forked from": origin.forked_from,
            "created": output.format_time(origin.time),
            "command": shlex.join(origin.command),
            "directory": origin.working_dir,
            "git commit": None if git is None else git.commit,
            "branch": None if git is None else git.branch,
            "changed since": None if git is None else git.is_dirty,
            "untracked": None if git is None else git.num_untracked or None,
            "machine": origin.host,
            "system": origin.platform,
            "processor": f"{origin.processor}, {origin.num_cores} cores",
            "memory": output.format_bytes(origin.memory_bytes),
            "python": origin.python,
            "packages": "\n".join(f"{name} {version}" for name, version in origin.packages.items()),
        }
    )
    if git is not None and git.diff:
        click.echo(f"\n{printable.clean(git.diff)}")
        if git.is_diff_cut:
            click.echo("(The changes are longer than what is kept of them.)")


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
@click.option(
    "--top", "-n", type=click.IntRange(min=1), default=1, show_default=True, help="How many trials."
)
@output.format_options
def best(experiment_id: int, top: int, form: output.Form) -> None:
    """Show the best trials of an experiment, with their checkpoints.

    Finalists that were trained with further seeds are one row each: the mean over these seeds with
    its 95 % interval, and how sure it is that the first one is better than the next.
    """
    with connect.open_calls() as calls:
        experiment = calls.get_experiment(experiment_id)
        searcher = experiment.config.get("searcher", {})
        standings = calls.list_best(experiment_id, top=top)
        rows = []
        for standing in standings:
            trial = calls.get_trial(standing.trial_ids[0])
            row = columns.to_best_row(trial, calls.list_checkpoints(trial_id=trial.id), searcher)
            rows.append(row | dataclasses.asdict(standing))
    if not rows:
        raise click.ClickException(f"Experiment {experiment_id}: no trial was validated yet.")
    if top > 1 or form is not output.Form.TABLE:
        output.print_list(rows, columns.list_best_columns(searcher), form=form)
        return
    output.print_fields(
        {
            "trial": rows[0]["trial"],
            rows[0]["metric_name"]: columns.format_metric(rows[0]["metric"], searcher),
            **columns.describe_standing(standings[0], searcher),
            "after": f"{rows[0]['batches']} batches",
            "hyperparameters": "\n".join(columns.flatten_hparams(rows[0]["hparams"])),
            "checkpoint": rows[0]["checkpoint"],
        }
    )
    if uuid := rows[0]["checkpoint"]:
        command = f"quintain checkpoint export {uuid} --output=best"
        click.echo(f"\nTo use its model: {command}", err=True)
    if shared := len(searcher.get("inherited", ())):
        command = f"quintain experiment compare {experiment.parent_id} {experiment.id}"
        click.echo(
            f"\n{shared} earlier trials do not count here. To see them too: {command}", err=True
        )


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
@click.option("--original", is_flag=True, help="As it was written; else complete.")
@click.option("--provenance", is_flag=True, help="Say what has set each value.")
@output.json_option
def config(experiment_id: int, original: bool, provenance: bool, as_json: bool) -> None:
    """Print the config of an experiment, as YAML that can be used again."""
    with connect.open_calls() as calls:
        experiment = calls.get_experiment(experiment_id)
    if as_json:
        output.print_json(experiment.config)
        return
    from quintain.config import yaml_io

    if provenance and not original:
        from quintain.cli.experiment import provenance as provenance_lib

        click.echo(provenance_lib.annotate(experiment), nl=False)
        return
    text = experiment.original_config if original else yaml_io.dump(experiment.config)
    click.echo(text, nl=not text.endswith("\n"))


@click.command("download-model-def", cls=FlagCommand)
@record_ids.experiment_argument
@click.option(
    "--output", "-o", "output_dir", metavar="DIR", help="Where to; experiment_ID_model by default."
)
def download_model_def(experiment_id: int, output_dir: str | None) -> None:
    """Copy the code of an experiment into a directory."""
    directory = pathlib.Path(output_dir or f"experiment_{experiment_id}_model")
    with connect.open_calls() as calls:
        paths = calls.fetch_model_dir(experiment_id, directory)
    click.echo(f"Copied {len(paths)} files to {directory}.")
