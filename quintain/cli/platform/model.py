"""`quintain model`: the registry of models, with versions, aliases and receipts."""

import json
import pathlib

import click

from quintain import errors
from quintain.cli import columns, connect, logs, output
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.client import calls as calls_lib
from quintain.records.rows import registered_model
from quintain.records.views import seeds

_MODEL_COLUMNS: tuple[output.Column[registered_model.RegisteredModel], ...] = (
    output.Column("name", lambda row: row.name),
    output.Column("newest", lambda row: row.usable[-1].version if row.usable else None),
    output.Column("versions", lambda row: len(row.usable)),
    output.Column("aliases", lambda row: row.aliases),
    output.Column("registered", lambda row: row.versions[-1].time, output.format_time),
    output.Column("note", lambda row: row.versions[-1].note, can_shrink=True, is_optional=True),
)

_VERSION_COLUMNS: tuple[output.Column[registered_model.ModelVersion], ...] = (
    output.Column("version", lambda row: row.version),
    output.Column("from", lambda row: _describe_source(row)),
    output.Column("sha256", lambda row: row.sha256[:16]),
    output.Column("registered", lambda row: row.time, output.format_time),
    output.Column("metrics", lambda row: row.metrics, can_shrink=True),
    output.Column("note", lambda row: row.note, can_shrink=True, is_optional=True),
    output.Column("deleted", lambda row: row.is_deleted, is_optional=True),
)


@click.group(cls=LazyGroup)
def model() -> None:
    """Register trained models under names, promote versions, and serve them by alias."""
    logs.set_up(is_verbose=False)


@model.command(cls=FlagCommand)
@click.argument("name")
@click.argument("path", type=click.Path(path_type=pathlib.Path), required=False)
@click.option("--trial", "trial_id", type=int, metavar="ID", help="Its best checkpoint.")
@click.option(
    "--experiment", "experiment_id", type=int, metavar="ID", help="That of its best trial."
)
@click.option("--checkpoint", metavar="UUID", help="This checkpoint of a trial.")
@click.option("--alias", default="", metavar="ALIAS", help="Let an alias name it, e.g. champion.")
@click.option("--note", default="", metavar="TEXT", help="Your words for it.")
@output.json_option
def register(
    name: str,
    path: pathlib.Path | None,
    trial_id: int | None,
    experiment_id: int | None,
    checkpoint: str | None,
    alias: str,
    note: str,
    as_json: bool,
) -> None:
    r"""Register a model as the next version of NAME, with the hashes of its files.

    \b
    quintain model register digits --experiment=3 --alias=champion
    quintain model register translator exports/local

    A checkpoint of a trial is kept from then on. PATH is that of an export, a run of `quintain
    train` (its newest checkpoint) or a .keras file, which stays where it is.
    """
    given = [one for one in (path, trial_id, experiment_id, checkpoint) if one is not None]
    if len(given) != 1:
        raise click.UsageError(
            f"PATH, --trial, --experiment, --checkpoint: got {len(given)} of them, expected one."
        )
    with connect.open_client() as client:
        if path is not None:
            from quintain.cli.training import registered_models

            receipt = registered_models.read_receipt(path)
            added = client.register_path(name, receipt, alias=alias, note=note)
        else:
            uuid = checkpoint or _find_best(client, trial_id, experiment_id)
            added = client.register_model(name, uuid, alias=alias, note=note)
    if as_json:
        output.print_json(added)
        return
    named = f", which {alias} names" if alias else ""
    click.echo(f"Registered {added.reference}{named}: {_describe_source(added)}.")
    click.echo(f"To use it: quintain serve-model --model {name}@{alias or added.version}", err=True)


@model.command("list", cls=FlagCommand)
@output.format_options
def list_models(form: output.Form) -> None:
    """List models with their newest versions and aliases."""
    with connect.open_calls() as calls:
        found = calls.list_models()
    output.print_list(
        found,
        _MODEL_COLUMNS,
        form=form,
        if_empty="No models are registered; `quintain model register --help` shows how.",
    )


@model.command(cls=FlagCommand)
@click.argument("name", metavar="NAME[@VERSION|@ALIAS]")
@output.json_option
def describe(name: str, as_json: bool) -> None:
    """Show a model with its versions and the history of its aliases, or all of one version."""
    bare, sign, _ = name.partition("@")
    mark = registered_model.parse_reference(name)[1] if sign else ""
    with connect.open_calls() as calls:
        found = calls.get_model(bare)
    version = found.find(mark) if mark else None
    if as_json:
        output.print_json(found if version is None else version)
    elif version is not None:
        _print_version(version, found)
    else:
        output.print_fields({"model": found.name, "aliases": found.aliases})
        click.echo(f"\n{output.to_table(found.versions, _VERSION_COLUMNS)}")
        if found.history:
            click.echo()
        for move in found.history:
            reason = f" ({move.reason})" if move.reason else ""
            click.echo(
                f"{output.format_time(move.time)}  {move.alias} -> version {move.version}{reason}"
            )


@model.command(cls=FlagCommand, context_settings={"allow_extra_args": True})
@click.argument("reference", metavar="NAME@VERSION")
@click.argument("alias")
@click.option(
    "--not-worse-than",
    default="",
    metavar="ALIAS",
    help="Only if it is not worse than what this alias or version names, with 95 % confidence, "
    "over trials of equal seeds and its hyperparameters.",
)
@click.option(
    "--metric", "metric_name", default="", metavar="NAME", help="The searched one by default."
)
@click.option("--margin", type=float, metavar="NUMBER", help="By how much it may be worse.")
@output.json_option
@click.pass_context
def promote(
    context: click.Context,
    reference: str,
    alias: str,
    not_worse_than: str,
    metric_name: str,
    margin: float | None,
    as_json: bool,
) -> None:
    r"""Let an alias name a version, from now on.

    \b
    quintain model promote digits@4 champion --not-worse-than=champion --metric=accuracy
    """
    if context.args:
        given = " ".join((reference, alias, *context.args))
        raise click.UsageError(
            f"NAME@VERSION ALIAS: got {given!r}. Join name and version by an @: "
            f"`quintain model promote {reference}@{alias} {context.args[0]}`."
        )
    if not not_worse_than and (metric_name or margin is not None):
        raise click.UsageError("--metric, --margin: belong to --not-worse-than, which is missing.")
    name, mark = registered_model.parse_reference(reference)
    with connect.open_client() as client:
        version = client.get_model(name).find(mark).version
        found = client.promote_model(
            name,
            version,
            alias,
            not_worse_than=not_worse_than,
            metric_name=metric_name,
            margin=margin or 0.0,
        )
    reason = found.history[-1].reason
    text = f"{name}@{alias} is version {version}{f': {reason}' if reason else ''}."
    output.print_record(found, text, as_json=as_json)


@model.command(cls=FlagCommand)
@click.argument("reference", metavar="NAME@VERSION")
@click.option("--with-aliases", is_flag=True, help="Also the aliases that name it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@output.json_option
def delete(reference: str, with_aliases: bool, yes: bool, as_json: bool) -> None:
    """Delete a version; its checkpoint may be deleted then.

    Its number is not given again, and its receipt stays.
    """
    name, mark = registered_model.parse_reference(reference)
    if not yes:
        output.confirm(f"Delete {reference}?")
    with connect.open_client() as client:
        version = client.get_model(name).find(mark).version
        deleted = client.delete_model(name, version, with_aliases=with_aliases)
    output.print_record(deleted, f"Deleted {deleted.reference}.", as_json=as_json)


def _find_best(calls: calls_lib.Calls, trial_id: int | None, experiment_id: int | None) -> str:
    """Returns the best checkpoint of a trial, or of the best trial of an experiment."""
    if trial_id is None:
        experiment = calls.get_experiment(int(experiment_id or 0))
        searcher = experiment.config.get("searcher", {})
        best = seeds.find_best(calls.list_trials(experiment.id), searcher)
        if best is None:
            raise errors.StateError(f"Experiment {experiment.id}: no trial was validated yet.")
    else:
        best = calls.get_trial(trial_id)
        searcher = calls.get_experiment(best.experiment_id).config.get("searcher", {})
    row = columns.to_best_row(best, calls.list_checkpoints(trial_id=best.id), searcher)
    if row["checkpoint"] is None:
        raise errors.StateError(f"Trial {best.id}: it has no checkpoint that can be used.")
    return str(row["checkpoint"])


def _describe_source(version: registered_model.ModelVersion) -> str:
    if version.trial_id is not None:
        return f"trial {version.trial_id}, checkpoint {version.checkpoint[:8]}"
    return "/".join(filter(None, (version.path, version.checkpoint)))


def _print_version(
    version: registered_model.ModelVersion, found: registered_model.RegisteredModel
) -> None:
    aliases = [alias for alias, number in found.aliases.items() if number == version.version]
    origin = dict(version.origin)
    output.print_fields(
        {
            "version": version.reference,
            "aliases": aliases,
            "note": version.note,
            "from": _describe_source(version),
            "checkpoint": version.checkpoint,
            "experiment": version.experiment_id,
            "machine": version.machine,
            "registered": output.format_time(version.time),
            "metrics": "\n".join(columns.flatten_hparams(version.metrics)),
            "sha256": version.sha256,
            "files": "\n".join(f"{mark}  {name}" for name, mark in version.files.items()),
            "hyperparameters": "\n".join(
                columns.flatten_hparams(version.config.get("hparams", {}))
            ),
            "seed": version.config.get("seed"),
            "data": "\n".join(f"{path} ({mark})" for path, mark in origin.pop("data", {}).items()),
            "origin": json.dumps(origin) if origin else None,
        }
    )
