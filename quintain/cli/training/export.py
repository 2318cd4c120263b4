"""`quintain export`: writes the model of a run as a SavedModel."""

from typing import Any

import click

from quintain.cli import logs, options, output, tensorflow_import
from quintain.cli.lazy_group import FlagCommand
from quintain.cli.training import registered_models, staged_runs
from quintain.files import file_io


@click.command(cls=FlagCommand)
@registered_models.model_options
@click.option("--output", "target", required=True, metavar="DIR", help="Directory to write.")
@options.search_options
@click.option("--min-length", type=click.IntRange(min=0), help="Fewest tokens of a translation.")
@click.option(
    "--no-repeat-ngram-size", type=click.IntRange(min=0), help="Runs of tokens not to repeat."
)
@click.option(
    "--max-source-length", type=click.IntRange(min=1), help="Most tokens of a text; 1000."
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["saved_model", "keras", "preset", "transformers"]),
    default="saved_model",
    show_default=True,
    help="The others are of fine-tuned presets: a .keras file, a preset of KerasHub, or what "
    "Hugging Face's Transformers read.",
)
@click.option("--overwrite", is_flag=True, help="Replace an export that is there.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
@options.precision_option
@options.export_option
@options.log_option
@registered_models.reads
def export(
    model_dir: str,
    target: str,
    checkpoint: str | None,
    file_format: str,
    overwrite: bool,
    as_json: bool,
    alsologtostderr: bool,
    own_options: tuple[str, ...],
    **settings: Any,
) -> None:
    r"""Write the model of a run as a SavedModel, for programs without this package.

    A model of translation or sentence prediction takes text and gives text: the vocabulary is
    inside, and loading it needs `import tensorflow_text`. Any other one takes what its task's
    inputs give, without the labels, unless the task says something else (`build_export_module`).

    \b
    quintain export --model-dir=runs/local --output=exports/local
    quintain translate --model-dir=exports/local "the third of May"
    quintain serve-model --model-dir=exports/local
    """
    logs.set_up(is_verbose=alsologtostderr)
    tensorflow_import.import_quietly()
    from quintain.serving import exporter

    given = options.parse_export_options(settings, own_options)
    if file_format != "saved_model":
        with staged_runs.writing(target, overwrite=overwrite) as local:
            exporter.export_preset(
                model_dir, local, file_format, checkpoint=checkpoint, overwrite=overwrite, **given
            )
            size = file_io.total_size(local)
        shown = {"directory": target, "format": file_format, "size": size}
        if as_json:
            output.print_json(shown)
        else:
            click.echo(f"Wrote {target} ({file_format}, {output.format_bytes(size)}).")
        return
    with staged_runs.writing(target, overwrite=overwrite) as local:
        exporter.export_run(model_dir, local, checkpoint=checkpoint, overwrite=overwrite, **given)
        description = exporter.Description.read(local)
        size = file_io.total_size(local)
    checkpoint_name = description.checkpoint.replace(model_dir, staged_runs.name(model_dir))
    shown = {
        "directory": target,
        "kind": description.kind,
        "checkpoint": checkpoint_name,
        "signatures": sorted(description.signatures.values()),
        "size": size,
    }
    if as_json:
        output.print_json(shown)
        return
    signatures = ", ".join(sorted(description.signatures.values()))
    click.echo(f"Exported {checkpoint_name} to {target} ({output.format_bytes(size)}).")
    click.echo(f"Signatures: {signatures}")
