"""Closing lines of a training, a fine-tuning or a dry run."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from quintain.cli import output

if TYPE_CHECKING:
    from quintain.run import dry_run, experiment_parser, train_lib


def show_dry_run(experiment: str, report: "dry_run.DryRunReport") -> None:
    """Shows sizes and times.

    Args:
        experiment: Name of the experiment.
        report: What was measured.
    """
    fields = {
        "experiment": experiment,
        "parameters": f"{report.num_parameters:,}",
        "checkpoint": output.format_bytes(report.checkpoint_bytes),
        "peak memory": output.format_bytes(report.peak_memory_bytes),
        "batch": f"{report.batch_examples} examples"
        + (f", {report.batch_tokens} tokens" if report.batch_tokens else ""),
        "first loss": f"{report.loss:.4f}",
        "first step": f"{report.first_step_secs:.1f} s, compilation included",
        "step": f"{report.step_secs * 1000:.0f} ms",
        "training": f"{report.train_steps:,} steps, about "
        f"{output.format_secs(report.estimated_train_secs)}",
    }
    most = max(report.layers.values(), default=1)
    width = max(map(len, report.layers), default=0)
    for path, count in report.layers.items():
        bar = "#" * round(20 * count / most)
        click.echo(f"{path:<{width}}  {count:>13,}  {bar}".rstrip())
    click.echo()
    evaluated = {f"evaluated {name}": f"{value:.4g}" for name, value in report.eval_logs.items()}
    _show(fields | evaluated)
    click.echo("Nothing was kept. Leave --dry-run out to train.", err=True)


def show_finetuned(logs: Mapping[str, Any], model_dir: str) -> None:
    """Shows the metrics of the last checkpoint, and where all are."""
    _show({"metrics of all": f"{model_dir}/metrics-STEP.json"})
    _show_metrics(logs)


def show_result(
    parsed: "experiment_parser.ParsedExperiment",
    result: "train_lib.TrainResult",
    *,
    model_dir: str,
    mode: str,
    secs: float,
    gin_flags: str,
) -> None:
    """Shows the metrics of a run, and the commands to go on with.

    Args:
        parsed: The experiment.
        result: What came out.
        model_dir: Directory of the run.
        mode: Name of the mode.
        secs: How long it took.
        gin_flags: The gin flags as they were given, with a space before each.
    """
    from quintain.run import runner_factory

    _show_metrics(result.logs)
    state = f"at step {result.step} of {result.train_steps}"
    if result.is_complete:
        state = "complete"
    elif result.is_stopped_early:
        state += ", where it was stopped early"
    took = output.format_secs(secs)
    click.echo(f"\nThe run in {model_dir} is {state} ({took}). What next:", err=True)
    directory = shlex.quote(model_dir)
    flags = "".join(f" --import={name}" for name in parsed.imports) + gin_flags
    commands = runner_factory.list_next_commands(parsed.params, directory)
    goes_on = f"quintain train --model-dir={directory}{flags}"
    if result.is_stopped_early:
        goes_on += " --set trainer.early_stopping.patience=N"
    if result.is_complete:
        more_steps = max(result.train_steps, result.step) * 2
        commands["train longer"] = f"{goes_on} --set trainer.train_steps={more_steps}"
    else:
        commands["resume"] = goes_on
    if mode != "eval":
        commands["evaluate"] = f"quintain train --mode=eval --model-dir={directory}{flags}"
    commands["look at curves"] = f"quintain tensorboard --run={directory}"
    for name, command in commands.items():
        click.echo(f"  {name + ':':<15} {command}", err=True)


def _show_metrics(logs: Mapping[str, Any]) -> None:
    from quintain.checkpoints import evaluation_log

    _show({name: _format_metric(value) for name, value in evaluation_log.flatten(logs).items()})


def _format_metric(value: Any) -> str:
    try:
        return f"{float(value):.4f}"
    except (TypeError, ValueError):
        return str(value)


def _show(fields: Mapping[str, str]) -> None:
    output.print_fields(fields, err=True, indent="  ")
