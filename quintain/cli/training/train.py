"""`quintain train`: trains and evaluates an experiment, or goes on with a run."""

import dataclasses
import json
import shlex
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from quintain import errors
from quintain.cli import logs, options
from quintain.cli.lazy_group import ARGUMENTS_KEY, FlagCommand
from quintain.cli.training import staged_runs

if TYPE_CHECKING:
    from quintain.cli.training import standby as standby_lib
    from quintain.run import dry_run as dry_run_lib
    from quintain.run import experiment_parser, run_environment
    from quintain.run.events import step_profile

MODES: Final = (
    "train",
    "eval",
    "train_and_eval",
    "train_and_post_eval",
    "train_and_validate",
    "continuous_eval",
    "continuous_train_and_eval",
)
_FINETUNE_MODE: Final = "continuous_train_and_eval"


@click.command(cls=FlagCommand)
@options.experiment_options
@click.option(
    "--mode",
    type=options.Choice(MODES),
    default="train_and_eval",
    show_default=True,
    metavar="MODE",
    help=", ".join(MODES),
)
@click.option(
    "--model-dir", metavar="DIR", help="Directory of the run. A run that is there is gone on with."
)
@click.option("--run-post-eval", is_flag=True, help="Evaluate once more at the end.")
@click.option(
    "--dry-run", is_flag=True, help="Build everything, run a few batches, report sizes and times."
)
@click.option(
    "--local-workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Train in N processes on this machine: synchronously, or with parameter servers if "
    "runtime.distribution_strategy says so.",
)
@click.option(
    "--local-ps",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="With --local-workers: parameter servers to start, where they are asked for.",
)
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="With --local-workers or --cluster-workers: how often dead processes are started again. "
    "With --standby: how often without a new checkpoint.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Keep a second process ready, which goes on within seconds when the first is killed.",
)
@options.cluster_options
@click.option(
    "--pretrain-steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --mode=continuous_train_and_eval: step of the last checkpoint to fine-tune.",
)
@click.option(
    "--allow-config-change",
    is_flag=True,
    help="Go on with a run although its settings differ from those it was trained with.",
)
@click.option(
    "--enable-async-checkpointing/--noenable-async-checkpointing",
    "enable_async_checkpointing",
    default=True,
    show_default=True,
    help="Write checkpoints in the background.",
)
@click.option(
    "--profile",
    metavar="START:STOP",
    help="Write a TensorBoard profile of these steps to the model directory.",
)
@click.option(
    "--action",
    "actions",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Class of your own that is called with the output of each training loop. Repeatable; "
    "trainer.actions gives it arguments.",
)
@click.option(
    "--overfit-batches",
    type=click.IntRange(min=1),
    metavar="N",
    help="Train on the first N batches again and again: a model that can learn learns them by "
    "heart. Evaluations read all of their data.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the final metrics as JSON.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@options.log_option
@click.option("--tpu", metavar="ADDRESS", help="Overrides runtime.tpu.")
@click.option("--tf-data-service", metavar="ADDRESS", help="Overrides the tf.data service address.")
@staged_runs.trains
def train(
    mode: str,
    model_dir: str | None,
    run_post_eval: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    alsologtostderr: bool,
    local_workers: int | None,
    local_ps: int,
    max_restarts: int,
    standby: bool,
    cluster_workers: int | None,
    ray_address: str | None,
    ray_max_slots: int | None,
    pretrain_steps: int | None,
    allow_config_change: bool,
    enable_async_checkpointing: bool,
    profile: str | None,
    overfit_batches: int | None,
    **flags: Any,
) -> None:
    r"""Train and evaluate an experiment, or go on with a run.

    \b
    quintain train --experiment=translation/local --model-dir=runs/local
    quintain train --model-dir=runs/local                      (go on with it)
    quintain train --experiment=translation/small --model-dir=runs/mine \
        --set task.train_data.input_path=train.tsv \
        --set task.validation_data.input_path=valid.tsv
    """
    _check_flags(mode, model_dir, dry_run, pretrain_steps, flags)
    if overfit_batches is not None:
        flags["assignments"] += (f"task.train_data.overfit_batches={overfit_batches}",)
    profile_range = None if profile is None else _parse_profile(profile, mode, is_dry=dry_run)
    if ray_max_slots is not None and ray_address is None:
        raise errors.ConfigError("--ray-max-slots: is for a Ray cluster; give --ray, too.")
    several = {"--local-workers": local_workers, "--cluster-workers": cluster_workers}
    elsewhere = {**several, "--ray": ray_address, "--dry-run": dry_run}
    _check_standby(standby, [name for name, value in elsewhere.items() if value], mode, model_dir)
    if cluster_workers is not None or ray_address is not None:
        refused = {
            "--dry-run": dry_run,
            "--json": as_json,
            "--local-workers": local_workers,
            "--profile": profile,
            "--run-post-eval": run_post_eval,
            "--action": flags["actions"],
            "--gin-file": flags["gin_file"],
            "--gin-params": flags["gin_params"],
        }
        _train_on_cluster(
            [name for name, value in refused.items() if value],
            flags,
            mode=mode,
            model_dir=str(model_dir),
            is_quiet=quiet,
            max_restarts=max_restarts,
            ray_address=ray_address,
            ray_max_slots=ray_max_slots,
            num_slots=cluster_workers,
        )
        return
    if local_workers is not None:
        settings = {"max_restarts": max_restarts, "allow_config_change": allow_config_change}
        sizes = {"num_workers": local_workers, "num_ps": local_ps}
        _train_locally(mode, model_dir, dry_run, flags, **settings, **sizes)
        return

    from quintain.cli import standard_streams
    from quintain.cli.display import closing_lines
    from quintain.cli.training import local_cluster
    from quintain.terminal import screens, training_display

    standard_streams.outlive_readers()
    turn = _start_standby(standby, str(model_dir), max_restarts)
    local_cluster.watch_supervisor()
    start_secs = time.monotonic()
    is_quiet = quiet or as_json
    screen = screens.open_screen(
        is_quiet=is_quiet, refreshes_per_sec=training_display.REFRESHES_PER_SEC
    )
    turn.hold_output()
    display = training_display.TrainingDisplay(screen)
    logs.set_up(is_verbose=alsologtostderr, shows_samples=not is_quiet)
    with screen:
        display.show_phase("Starting TensorFlow")
        parse_options = options.build_parse_options(model_dir=model_dir, **flags)
        from quintain.run import experiment_parser, run_environment

        environment = run_environment.Environment()
        parsed = experiment_parser.parse(parse_options)
        if dry_run:
            display.show_phase("Building everything and running a few batches")
            report = _dry_run(parsed, mode)
            screen.stop()
            _show_dry_run(parsed.name, report, as_json=as_json)
            return
        from quintain.distribute import parameter_servers

        turn.check_runtime(parsed.params.runtime)
        if parameter_servers.is_server(parsed.params.runtime):
            screen.stop()
            parameter_servers.serve()
            return
        from quintain.run import run_options, runner_factory, train_lib, train_reporter

        labels = runner_factory.merge_metric_labels(parsed.params)
        run = run_options.RunOptions(
            run_post_eval=run_post_eval,
            enable_async_checkpointing=enable_async_checkpointing,
            reporter=train_reporter.TrainReporter(display, labels),
            profile=profile_range,
            on_start=turn.announced(lambda: _remember(environment, parsed, str(model_dir))),
            stand_by=turn.find_wait(environment),
            memory=turn.memory,
        )
        if mode == _FINETUNE_MODE:
            finetune_logs = _finetune(
                parsed,
                str(model_dir),
                pretrain_steps=pretrain_steps,
                allow_config_change=allow_config_change,
                options=run,
            )
            screen.stop()
            _show_finetuned(finetune_logs, str(model_dir), as_json=as_json, is_quiet=quiet)
            return
        display.show_phase("Building data, model and optimizer")
        result = train_lib.train_from_config(
            parsed.params,
            mode,
            str(model_dir),
            experiment=parsed.name,
            imports=parsed.imports,
            allow_config_change=allow_config_change,
            options=run,
        )
    if as_json:
        _print_json({"step": result.step, **result.logs})
    elif not quiet:
        closing_lines.show_result(
            parsed,
            result,
            model_dir=staged_runs.name(str(model_dir)),
            mode=mode,
            secs=time.monotonic() - start_secs,
            gin_flags=_join_gin(flags),
        )


def _check_standby(is_wanted: bool, refused: list[str], mode: str, model_dir: str | None) -> None:
    """Checks that what gets a standby is one training, in a directory of a file system."""
    if is_wanted and refused:
        raise errors.ConfigError(f"--standby: got it with {', '.join(refused)}; leave out.")
    if is_wanted and not mode.startswith("train"):
        raise errors.ConfigError(f"--standby: got it with --mode={mode}, expected one training.")
    if is_wanted and staged_runs.name(str(model_dir)) != model_dir:
        raise errors.ConfigError(
            f"--standby: got --model-dir={staged_runs.name(str(model_dir))}, expected a directory "
            "of a file system. Train there, and copy the run."
        )


def _start_standby(is_wanted: bool, model_dir: str, max_restarts: int) -> "standby_lib.Turn":
    """Returns in every process that trains; the one that is called supervises them, and exits."""
    from quintain.cli.training import standby

    turn = standby.Supervisor(model_dir, max_restarts).run() if is_wanted else standby.Turn()
    if isinstance(turn, int):
        click.get_current_context().exit(turn)
    return turn


def _show_dry_run(name: str, report: "dry_run_lib.DryRunReport", *, as_json: bool) -> None:
    from quintain.cli.display import closing_lines

    if as_json:
        _print_json(dataclasses.asdict(report))
    else:
        closing_lines.show_dry_run(name, report)


def _show_finetuned(
    finetune_logs: Mapping[str, Any], model_dir: str, *, as_json: bool, is_quiet: bool
) -> None:
    from quintain.cli.display import closing_lines

    if as_json:
        _print_json(finetune_logs)
    elif not is_quiet:
        closing_lines.show_finetuned(finetune_logs, staged_runs.name(model_dir))


def _check_flags(
    mode: str,
    model_dir: str | None,
    dry_run: bool,
    pretrain_steps: int | None,
    flags: Mapping[str, Any],
) -> None:
    """Checks that flags are there which need each other."""
    if pretrain_steps is not None and mode != _FINETUNE_MODE:
        raise errors.ConfigError(
            f"--pretrain-steps: got {pretrain_steps} with --mode={mode}, expected "
            "--mode=continuous_train_and_eval."
        )
    if not model_dir and not dry_run:
        raise errors.ConfigError(
            "--model-dir: missing; say where the run is kept, as in runs/local."
        )
    if not flags["experiment"] and not flags["config_file"] and not model_dir:
        raise errors.ConfigError("--experiment: missing; `quintain config list` shows the names.")


def _remember(
    environment: "run_environment.Environment",
    parsed: "experiment_parser.ParsedExperiment",
    model_dir: str,
) -> None:
    """Writes down how the run was started, and notes it in the home, for the page to list it."""
    from quintain.client.home import home as home_lib
    from quintain.client.notebook import run_notes

    environment.record(model_dir, {path: str(one) for path, one in parsed.provenance.items()})
    if staged_runs.name(model_dir) == model_dir:  # The page reads no copies, which go again.
        run_notes.note(home_lib.find_home(), model_dir, parsed.name)


def _print_json(logs: Mapping[str, Any]) -> None:
    from quintain.checkpoints import evaluation_log

    click.echo(json.dumps(evaluation_log.to_plain(logs)))


def _parse_profile(text: str, mode: str, *, is_dry: bool) -> "step_profile.StepRange":
    """Returns the `StepRange` of `--profile`.

    Raises:
        ConfigError: If it is malformed, or there are no steps to profile.
    """
    from quintain.cli import tensorflow_import

    tensorflow_import.import_quietly()
    from quintain.run import run_mode
    from quintain.run.events import step_profile

    steps = step_profile.StepRange.parse(text)
    is_one_training = run_mode.parse_mode(mode).is_training and mode != _FINETUNE_MODE
    if is_dry or not is_one_training:
        where = "--dry-run" if is_dry else f"--mode={mode}"
        raise errors.ConfigError(
            f"--profile: got {text!r} with {where}, expected a mode that trains once, such as "
            "--mode=train; its steps are what is profiled."
        )
    return steps


def _join_gin(flags: dict[str, Any]) -> str:
    """Returns the gin flags as they were given, with a space before each."""
    names = {"--gin-file": "gin_file", "--gin-params": "gin_params"}
    return "".join(
        f" {flag}={shlex.quote(one)}" for flag, name in names.items() for one in flags[name]
    )


def _finetune(
    parsed: "experiment_parser.ParsedExperiment", model_dir: str, **settings: Any
) -> Mapping[str, Any]:
    """Fine-tunes the checkpoints of a pretraining, and returns the last metrics."""
    from quintain.nlp import continuous_finetune_lib

    return continuous_finetune_lib.run_from_config(
        parsed.params,
        model_dir,
        experiment=parsed.name,
        imports=parsed.imports,
        **settings,
    )


def _train_locally(
    mode: str,
    model_dir: str | None,
    dry_run: bool,
    flags: dict[str, Any],
    **settings: Any,
) -> None:
    """Trains in several processes of this machine, and exits with their exit code."""
    if dry_run or not model_dir:
        raise errors.ConfigError(
            "--local-workers: a cluster needs a --model-dir, and can't be tried with --dry-run."
        )
    from quintain.cli.training import local_training

    context = click.get_current_context()
    parse_options = options.build_parse_options(model_dir=model_dir, **flags)
    code = local_training.run(
        parse_options, mode, model_dir, arguments=context.meta[ARGUMENTS_KEY], **settings
    )
    context.exit(code)


def _train_on_cluster(refused: list[str], flags: dict[str, Any], **settings: Any) -> None:
    """Trains on the machines of a master, and exits with the exit code of the experiment."""
    if refused:
        name = "--ray" if settings["num_slots"] is None else "--cluster-workers"
        raise errors.ConfigError(f"{name}: got it with {', '.join(refused)}; leave out.")
    from quintain.cli import tensorflow_import
    from quintain.cli.training import cluster_training

    tensorflow_import.import_quietly()
    code = cluster_training.run(options.build_parse_options(**flags), **settings)
    click.get_current_context().exit(code)


def _dry_run(parsed: "experiment_parser.ParsedExperiment", mode: str) -> "dry_run_lib.DryRunReport":
    """Builds and runs everything once, in a directory that is thrown away."""
    from quintain.run import dry_run

    with tempfile.TemporaryDirectory() as scratch:
        return dry_run.dry_run(parsed.params, mode, scratch)
