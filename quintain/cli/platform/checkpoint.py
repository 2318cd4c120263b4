"""`quintain checkpoint`: states of trials; averages of those of runs; conversion of others'."""

import contextlib
import os
import pathlib
import tempfile
from typing import Any, Final

import click

from quintain import errors
from quintain.cli import columns, connect, logs, options, output, record_ids, tensorflow_import
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.cli.training import staged_runs
from quintain.records import checkpoint_manifest
from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.views import metric_order

_DESCRIPTION: Final = "experiment.json"
_NUM_AVERAGED: Final = 5
"""Checkpoints that `average` takes if not told which."""


@click.group(
    cls=LazyGroup,
    sections={
        "Commands": {
            "orphans": (
                "quintain.cli.platform.checkpoint_orphans:orphans",
                "List, adopt or delete checkpoints that the database does not know.",
            ),
        }
    },
)
def checkpoint() -> None:
    """Show, copy and delete checkpoints, the saved states of trials; average or convert others."""
    logs.set_up(is_verbose=False)


@checkpoint.command("list", cls=FlagCommand)
@record_ids.optional_experiment_argument
@click.option(
    "--trial",
    "trial_id",
    type=int,
    metavar="ID",
    shell_complete=record_ids.complete_trial,
    help="Only those of this trial.",
)
@click.option("--best", type=click.IntRange(min=1), metavar="N", help="Only the N best.")
@options.state_option(checkpoint_lib.CheckpointState)
@output.format_options
def list_checkpoints(
    experiment_id: int | None,
    trial_id: int | None,
    best: int | None,
    state_names: tuple[str, ...],
    form: output.Form,
) -> None:
    """List checkpoints, of one experiment or of all."""
    if best is not None and experiment_id is None:
        raise click.UsageError("`--best` requires EXPERIMENT.")
    with connect.open_calls() as calls:
        found = calls.list_checkpoints(
            experiment_id=experiment_id,
            trial_id=trial_id,
            state_names=[checkpoint_lib.CheckpointState(name) for name in state_names],
        )
        if best is not None and experiment_id is not None:
            searcher = calls.get_experiment(experiment_id).config.get("searcher", {})
            found = metric_order.rank(
                [one for one in found if columns.is_usable(one)],
                lambda one: one.metric,
                smaller_is_better=searcher.get("smaller_is_better", True),
            )[:best]
    output.print_list(
        found, columns.CHECKPOINT_COLUMNS, form=form, if_empty="There are no checkpoints."
    )


@checkpoint.command(cls=FlagCommand)
@click.argument("uuid", shell_complete=record_ids.complete_checkpoint)
@output.json_option
def describe(uuid: str, as_json: bool) -> None:
    """Show a checkpoint. The beginning of its UUID is enough."""
    with connect.open_calls() as calls:
        found = calls.get_checkpoint(uuid)
        trial = calls.get_trial(found.trial_id)
    if as_json:
        output.print_json({**vars(found), "hparams": trial.hparams})
        return
    output.print_fields(
        {
            "checkpoint": found.uuid,
            "experiment": found.experiment_id,
            "trial": found.trial_id,
            "hyperparameters": "\n".join(columns.flatten_hparams(trial.hparams)),
            "batches": found.total_batches,
            "metric": found.metric,
            "state": found.state.value,
            "size": output.format_bytes(found.num_bytes),
            "saved": output.format_time(found.time),
            "metadata": found.metadata,
            "files": "\n".join(
                f"{name} ({output.format_bytes(size)})"
                for name, size in sorted(found.files.items())
                if not name.endswith("/")
            ),
        }
    )


@checkpoint.command(cls=FlagCommand)
@click.argument("uuid", shell_complete=record_ids.complete_checkpoint)
@click.option(
    "--output", "-o", "output_dir", metavar="DIR", help="Where to; checkpoint_UUID by default."
)
def download(uuid: str, output_dir: str | None) -> None:
    """Copy all files of a checkpoint, and a description of it (experiment.json)."""
    with connect.open_calls() as calls:
        found = calls.get_checkpoint(uuid)
        directory = pathlib.Path(output_dir or f"checkpoint_{found.uuid}")
        _check_empty(directory)
        paths = calls.fetch_checkpoint(found.uuid, directory)
        trial = calls.get_trial(found.trial_id)
        experiment = calls.get_experiment(found.experiment_id)
    import json

    from quintain.records.rows import codec

    description = {
        **codec.to_plain(found),
        "hparams": trial.hparams,
        "seed": trial.seed,
        "experiment_config": experiment.config,
    }
    text = json.dumps(codec.to_plain(description), indent=2)
    damage = checkpoint_manifest.find_damage(directory, found.files)
    (directory / _DESCRIPTION).write_text(text, encoding="utf-8")
    if damage:
        raise errors.CheckpointError(
            f"checkpoint {found.uuid}: it is damaged: {damage}. Its {len(paths)} files were copied "
            f"to {directory} as they are."
        )
    click.echo(f"Copied {len(paths)} files of checkpoint {found.uuid} to {directory}.")


@checkpoint.command(cls=FlagCommand)
@click.argument("uuid", metavar="UUID|DIR", shell_complete=record_ids.complete_checkpoint)
@click.option(
    "--output", "-o", "output_dir", metavar="DIR", help="Where to; export_UUID by default."
)
def export(uuid: str, output_dir: str | None) -> None:
    """Export the models in a checkpoint, which serve without the code: SavedModels, .keras files.

    What a Keras or an Estimator trial saved has them in it. Of a trial of a registered experiment
    (`entrypoint: experiment:NAME`) one is written as `quintain export` does.

    A checkpoint that no database knows any more is given by its directory.
    """
    from quintain.cli.training import checkpoint_export

    if os.sep in uuid and (pathlib.Path(uuid) / checkpoint_manifest.FILE_NAME).is_file():
        source = pathlib.Path(uuid)
        checkpoint_export.export_models(
            source, source.name, _choose_target(output_dir, source.name)
        )
        return
    with connect.open_calls() as calls, tempfile.TemporaryDirectory() as scratch:
        found = calls.get_checkpoint(uuid)
        target = _choose_target(output_dir, found.uuid)
        source, code = pathlib.Path(scratch, "checkpoint"), pathlib.Path(scratch, "code")
        calls.fetch_checkpoint(found.uuid, source)
        with contextlib.suppress(errors.NotFoundError):  # Most registered experiments have none.
            calls.fetch_model_dir(found.experiment_id, code)
        checkpoint_export.export_models(source, found.uuid, target, found.files, code)


def _choose_target(output_dir: str | None, uuid: str) -> pathlib.Path:
    target = pathlib.Path(output_dir or f"export_{uuid}")
    _check_empty(target)
    return target


@checkpoint.command(cls=FlagCommand)
@click.argument("names", metavar="[CKPT]...", nargs=-1)
@click.option("--model-dir", metavar="DIR", help="Directory of the training run.")
@click.option(
    "--last", type=click.IntRange(min=2), metavar="N", help="So many of the newest; 5 by default."
)
@click.option(
    "--output",
    "-o",
    metavar="PATH",
    help="Checkpoint to write, or a directory for it; DIR/averaged/ckpt-STEP by default.",
)
@staged_runs.trains
def average(
    names: tuple[str, ...], model_dir: str | None, last: int | None, output: str | None
) -> None:
    r"""Average the weights of several checkpoints of a training run into a new one.

    \b
    quintain checkpoint average --model-dir=runs/local
    quintain checkpoint average --model-dir=runs/local ckpt-1600 ckpt-1800 ckpt-2000
    """
    if not names and not model_dir:
        raise errors.ConfigError(
            "--model-dir: missing; give the directory of a run, or paths of its checkpoints."
        )
    if names and last is not None:
        raise errors.ConfigError(f"--last: got {last} and names of checkpoints; give one of both.")
    tensorflow_import.import_quietly()
    from quintain.checkpoints import checkpoint_average

    if names:
        paths = checkpoint_average.find_named(names, model_dir)
    else:
        paths = checkpoint_average.find_newest(
            str(model_dir), last or _NUM_AVERAGED, is_exact=last is not None
        )
    found = checkpoint_average.average_checkpoints(paths, output, model_dir=model_dir)
    for source in found.sources:
        click.echo(f"  {source}")
    click.echo(f"Averaged {len(found.sources)} checkpoints; wrote {found.path}.")


@checkpoint.command(cls=FlagCommand)
@options.experiment_options
@click.option(
    "--from",
    "source",
    required=True,
    metavar="CKPT",
    help="Checkpoint of the TensorFlow Model Garden, or its directory.",
)
@click.option("--model-dir", required=True, metavar="DIR", help="Directory to write.")
@click.option(
    "--allow-new", is_flag=True, help="Keep heads that the checkpoint lacks, with new weights."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def convert(source: str, model_dir: str, allow_new: bool, as_json: bool, **flags: Any) -> None:
    r"""Make a run from a checkpoint of the TensorFlow Model Garden: BERT or translation.

    \b
    quintain checkpoint convert --from=uncased_L-12_H-768_A-12/bert_model.ckpt \
        --experiment=bert/sentence_prediction --set task.model.num_classes=2 \
        --model-dir=runs/converted --allow-new
    """
    if not flags["experiment"] and not flags["config_file"]:
        raise errors.ConfigError("--experiment: missing; `quintain config list` shows the names.")
    parse_options = options.build_parse_options(model_dir=model_dir, **flags)
    from quintain.nlp.tasks import converted_run
    from quintain.run import experiment_parser

    parsed = experiment_parser.parse(parse_options)
    path, report = converted_run.convert(
        source,
        parsed.params,
        model_dir,
        experiment=parsed.name,
        imports=parsed.imports,
        allow_new=allow_new,
    )
    if as_json:
        output.print_json({"written": path, **report.as_dict()})
        return
    for name, sources in report.loaded.items():
        click.echo(f"  {name} <- {', '.join(sources)}")
    for name, weights in report.new.items():
        click.echo(f"  new: {name} ({', '.join(weights)})")
    for name in report.unused:
        click.echo(f"  not used: {name}")
    click.echo(report.summarize())
    click.echo(f"Wrote {path}.")


@checkpoint.command(cls=FlagCommand)
@click.argument(
    "uuids",
    metavar="UUID...",
    nargs=-1,
    required=True,
    shell_complete=record_ids.complete_checkpoint,
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def delete(uuids: tuple[str, ...], yes: bool) -> None:
    """Delete the files of checkpoints that no trial goes on from."""
    if not yes:
        output.confirm(f"Delete checkpoint {', '.join(uuids)}?")
    with connect.open_client() as client:
        for uuid in uuids:
            found = client.delete_checkpoint(uuid)
            click.echo(f"Deleted checkpoint {found.uuid}.")


def _check_empty(directory: pathlib.Path) -> None:
    """Checks that files can be copied into a directory without replacing any.

    Raises:
        ConfigError: If there are files in it.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise errors.ConfigError(
            f"--output: got {str(directory)!r}, which is there and not empty; expected a new "
            "or empty directory."
        )
