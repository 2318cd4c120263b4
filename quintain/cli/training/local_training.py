"""`quintain train --local-workers=N`: training in several processes of this machine."""

import shlex
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from quintain import errors
from quintain.cli.training import local_cluster
from quintain.files import file_paths
from quintain.server.security import own_commands

if TYPE_CHECKING:
    from quintain.run import experiment_parser

LOG_DIR: Final = "logs"
OWN_FLAGS: Final = ("--local-workers", "--local-ps", "--max-restarts")
_SYNCHRONOUS: Final = "multi_worker_mirrored"


def run(
    parse_options: "experiment_parser.ParseConfigOptions",
    mode: str,
    model_dir: str,
    *,
    arguments: Sequence[str],
    num_workers: int,
    num_ps: int,
    max_restarts: int,
    allow_config_change: bool,
) -> int:
    """Checks the experiment, then trains it in `num_workers` processes.

    They train synchronously, unless the experiment asks for `parameter_server`: then this starts a
    coordinator, the workers and the parameter servers. A worker of these that dies is started again
    alone; in synchronous training all are.

    Args:
        parse_options: The flags as `ParseConfigOptions`.
        mode: Name of the mode.
        model_dir: Directory of the run; the workers' logs go below it.
        arguments: The arguments of `quintain train` as they were given.
        num_workers: Workers to start.
        num_ps: Parameter servers to start, where the experiment asks for them.
        max_restarts: Restarts of the cluster before giving up.
        allow_config_change: Whether a run that is there may go on with other settings.

    Returns:
        The exit code.

    Raises:
        ConfigError: If the experiment can't be trained this way.
    """
    from quintain.run import experiment_parser, run_files, run_mode
    from quintain.settings import config_definitions as cfg

    parsed = experiment_parser.parse(parse_options)
    parsed_mode = run_mode.parse_mode(mode)
    if not parsed_mode.is_training:
        raise errors.ConfigError(
            f"--local-workers: got {num_workers} with --mode={mode}; a cluster is for training. "
            "Leave --local-workers out to evaluate."
        )
    run_mode.check_run(parsed.params, parsed_mode, model_dir)
    is_asynchronous = parsed.params.runtime.distribution is cfg.Distribution.PARAMETER_SERVER
    params = parsed.params
    if not is_asynchronous:
        from quintain.distribute import elastic_steps

        elastic_steps.check(params.runtime, num_workers * max(params.runtime.num_gpus, 1))
        params = params.replace(runtime={"distribution_strategy": _SYNCHRONOUS})
    run_files.check_model_dir(
        params,
        model_dir,
        experiment=parsed.name,
        writes=True,
        allow_config_change=allow_config_change,
    )
    cluster = local_cluster.LocalCluster(
        build_command(arguments, is_asynchronous=is_asynchronous),
        {"chief": 1, "worker": num_workers, "ps": num_ps}
        if is_asynchronous
        else {"worker": num_workers},
        log_dir=_choose_log_dir(model_dir),
        servers=("worker", "ps") if is_asynchronous else (),
        restarted_alone=("worker",) if is_asynchronous else (),
        max_restarts=max_restarts,
    )
    code = cluster.run()
    if code in local_cluster.INTERRUPTED_EXITS:
        command = f"quintain train {shlex.join(arguments)}"
        click.echo(f"All workers have stopped. To go on:\n  {command}", err=True)
    return code


def _choose_log_dir(model_dir: str) -> str:
    """Returns where the processes write their logs; beside the run if that is on this machine."""
    if file_paths.is_local(model_dir):
        return file_paths.join(model_dir, LOG_DIR)
    return tempfile.mkdtemp(prefix="quintain-logs-")


def build_command(arguments: Sequence[str], *, is_asynchronous: bool = False) -> Sequence[str]:
    """Returns the command of one process, from the arguments given to `quintain train`."""
    strategy = ("--set", f"runtime.distribution_strategy={_SYNCHRONOUS}")
    kept = strip_flags(arguments, OWN_FLAGS)
    return own_commands.build("train", *kept, *(() if is_asynchronous else strategy))


def strip_flags(arguments: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns `arguments` without some flags, written as `--name=value` or `--name value`."""
    kept, is_value = [], False
    for argument in arguments:
        if is_value:
            is_value = False
        elif argument in names:
            is_value = True
        elif argument.partition("=")[0] not in names:
            kept.append(argument)
    return kept
