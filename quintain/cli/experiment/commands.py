"""`quintain experiment pause|activate|cancel|...`: steers experiments."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from quintain import errors
from quintain.cli import connect, output, record_ids
from quintain.cli.experiment import endings
from quintain.cli.lazy_group import FlagCommand
from quintain.client.home import home as home_lib
from quintain.config import yaml_io
from quintain.records.config import searcher_config
from quintain.records.rows import experiment as experiment_lib

if TYPE_CHECKING:
    from quintain.client import master_client

MASTER_GRACE_SECS: Final = 20.0
"""How long `wait` waits for a master that was lost."""

_SAYS: Final = {
    "pause": "Pausing experiment {id}; its trials finish their workload and save themselves.",
    "activate": "Experiment {id} is active.",
    "cancel": "Canceling experiment {id}; its trials save themselves.",
    "kill": "Killing experiment {id}.",
    "archive": "Archived experiment {id}.",
    "unarchive": "Experiment {id} is in lists again.",
}


def _build_command(name: str, text: str) -> click.Command:
    """Returns a command that does the same to one or more experiments."""

    def run(experiment_ids: tuple[int, ...]) -> None:
        _apply_to_each(experiment_ids, name)

    run.__doc__ = text
    command = record_ids.experiments_argument(run)
    return click.command(name, cls=FlagCommand)(command)


def _apply_to_each(numbers: tuple[int, ...], name: str) -> None:
    def apply(number: int) -> None:
        experiment = client.apply(number, name)
        if experiment.state.is_terminal and name not in ("archive", "unarchive"):
            click.echo(f"Experiment {number} is {experiment.state.value}.")
        else:
            click.echo(_SAYS[name].format(id=number))

    with connect.open_client() as client:
        _for_each(numbers, apply)


def _for_each(numbers: tuple[int, ...], action: Callable[[int], object]) -> None:
    """Does something to each of several, and fails at the end if one of them failed."""
    failed: list[errors.QuintainError] = []
    for number in numbers:
        try:
            action(number)
        except (errors.StateError, errors.NotFoundError) as error:
            failed.append(error)
            if len(numbers) > 1:
                click.echo(f"Error: {error}", err=True)
    if len(numbers) == 1 and failed:
        raise failed[0]
    if failed:
        raise click.exceptions.Exit(1)


pause = _build_command(
    "pause",
    """Let trials finish their workload, save themselves and free their slots.""",
)


@click.command(cls=FlagCommand)
@record_ids.experiments_argument
@click.option("--follow", "-f", is_flag=True, help="Show it while it runs, as `create` does.")
def activate(experiment_ids: tuple[int, ...], follow: bool) -> None:
    """Go on with paused experiments, and with those whose master was ended or killed."""
    if not follow:
        _apply_to_each(experiment_ids, "activate")
        return
    if len(experiment_ids) > 1:
        raise click.UsageError("--follow: got several experiments, expected one.")
    from quintain.cli.experiment import foreground

    code, _ = foreground.run(lambda commands: commands.apply(experiment_ids[0], "activate"))
    raise click.exceptions.Exit(code)


@click.command(cls=FlagCommand)
@record_ids.experiments_argument
@click.option("--now", is_flag=True, help="At once; work since the last checkpoints is lost.")
def cancel(experiment_ids: tuple[int, ...], now: bool) -> None:
    """End experiments; their trials save themselves first."""
    _apply_to_each(experiment_ids, "kill" if now else "cancel")


kill = _build_command("kill", """Does what `cancel --now` does.""")
archive = _build_command("archive", """Leave ended experiments out of lists.""")
unarchive = _build_command("unarchive", """Show archived experiments in lists again.""")


@click.command(cls=FlagCommand)
@record_ids.experiments_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def delete(experiment_ids: tuple[int, ...], yes: bool) -> None:
    """Delete ended experiments with all that belongs to them, checkpoints included."""
    listed = ", ".join(map(str, experiment_ids))
    if not yes:
        output.confirm(f"Delete experiment {listed} and its checkpoints?")
    with connect.open_client() as client:

        def remove(number: int) -> None:
            client.delete_experiment(number)
            click.echo(f"Deleted experiment {number}.")

        _for_each(experiment_ids, remove)


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
@click.option(
    "--polling-interval",
    type=click.FloatRange(min=0, min_open=True),
    default=0.25,
    show_default=True,
    metavar="SECS",
    help="Seconds between two looks.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECS",
    help="Give up after so many seconds, with exit code 5.",
)
def wait(experiment_id: int, polling_interval: float, timeout: float | None) -> None:
    """Wait until an experiment has ended.

    Exits with 0 if it is COMPLETED, 1 for ERROR, 3 for CANCELED.
    """
    deadline_secs = None if timeout is None else time.monotonic() + timeout
    alone_since_secs = None
    while True:
        experiment = connect.ask(lambda calls: calls.get_experiment(experiment_id))
        if experiment.state.is_terminal:
            break
        left_secs = polling_interval
        if deadline_secs is not None:
            left_secs = min(left_secs, deadline_secs - time.monotonic())
            if left_secs <= 0:
                click.echo(f"Experiment {experiment_id} is {experiment.state.value}.", err=True)
                raise click.exceptions.Exit(5)
        alone_since_secs = _check_master(experiment, alone_since_secs)
        time.sleep(left_secs)
    click.echo(endings.describe_end(experiment))
    raise click.exceptions.Exit(endings.EXIT_CODES[experiment.state])


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
def follow(experiment_id: int) -> None:
    """Show an experiment that runs in the background; it goes on if this is ended.

    Exits as `wait` does once it has ended.
    """
    from quintain.cli.experiment import foreground

    raise click.exceptions.Exit(foreground.watch(experiment_id))


def _check_master(
    experiment: experiment_lib.Experiment, alone_since_secs: float | None
) -> float | None:
    """Returns since when no master runs, or None if one does.

    Raises:
        MasterUnreachableError: If that is so long that nothing will happen any more.
    """
    home = home_lib.find_home()
    if home_lib.find_master(home) is not None:
        return None
    now_secs = time.monotonic()
    if alone_since_secs is not None and now_secs - alone_since_secs > MASTER_GRACE_SECS:
        raise errors.MasterUnreachableError(
            f"Experiment {experiment.id} is {experiment.state.value}, but no master runs for "
            f"{home.path} that would go on with it; start one with `quintain master`, or use "
            f"`quintain experiment activate {experiment.id}`."
        )
    return now_secs if alone_since_secs is None else alone_since_secs


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
@click.option("--config-file", metavar="FILE", help="The new config; the other one's by default.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Repeatable.")
@output.json_option
def fork(
    experiment_id: int, config_file: str | None, assignments: tuple[str, ...], as_json: bool
) -> None:
    r"""Create an experiment with the code of another one, and its config with changes.

    \b
    quintain experiment fork 3 --set searcher.max_trials=64
    """
    text = None
    if config_file is not None:
        from quintain.cli.experiment import file as experiment_file

        text = experiment_file.load(config_file, assignments).text
    with connect.open_client() as client:
        experiment = client.fork_experiment(experiment_id, text, assignments)
    text = f"Created experiment {experiment.id} from experiment {experiment_id}."
    output.print_record(experiment, text, as_json=as_json)


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
@click.option(
    "--to-trial",
    type=click.IntRange(min=1),
    required=True,
    shell_complete=record_ids.complete_trial,
    help="Last shared trial.",
)
@click.option(
    "--searcher",
    type=click.Choice(list(searcher_config.SEARCHERS)),
    help="Another search method.",
)
@click.option("--space", metavar="FILE", help="YAML of hyperparameters; the same by default.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Repeatable.")
@output.json_option
def rewind(
    experiment_id: int,
    to_trial: int,
    searcher: str | None,
    space: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    r"""Create an experiment that shares the trials of another one up to one of them.

    \b
    quintain experiment rewind 7 --to-trial 40 --searcher tpe --space wider.yaml
    """
    space_text = None if space is None else yaml_io.dump(yaml_io.load_file(space))
    with connect.open_client() as client:
        experiment = client.rewind_experiment(
            experiment_id, to_trial, searcher or "", space_text, assignments
        )
    num_shared = len(experiment.config["searcher"]["inherited"])
    text = (
        f"Created experiment {experiment.id} from experiment {experiment_id}, with which it "
        f"shares {num_shared} trials."
    )
    output.print_record(experiment, text, as_json=as_json)


@click.command(cls=FlagCommand)
@record_ids.experiment_argument
@click.option("--max-trials", type=click.IntRange(min=1), help="Trials in all.")
@click.option("--max-length", type=click.IntRange(min=1), help="Length of trials, in its unit.")
@output.json_option
def extend(
    experiment_id: int, max_trials: int | None, max_length: int | None, as_json: bool
) -> None:
    r"""Go on with an ended search, with more trials or longer ones.

    \b
    quintain experiment extend 7 --max-trials 200
    """
    given = {"max_trials": max_trials, "max_length": max_length}
    assignments = [f"searcher.{name}={value}" for name, value in given.items() if value]
    if not assignments:
        raise click.UsageError("Nothing to extend. Give --max-trials, --max-length, or both.")
    with connect.open_client() as client:
        experiment = client.continue_experiment(experiment_id, assignments)
    output.print_record(experiment, f"Experiment {experiment.id} goes on.", as_json=as_json)


@click.command("continue", cls=FlagCommand)
@record_ids.experiment_argument
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Repeatable.")
@click.option(
    "--follow/--detach", "-f/-d", default=False, help="Show it while it runs, or return at once."
)
@output.json_option
def continue_(
    experiment_id: int, assignments: tuple[str, ...], follow: bool, as_json: bool
) -> None:
    r"""Go on with an ended experiment under its number: a longer search, or failed trials anew.

    \b
    quintain experiment continue 3 --set searcher.max_trials=64
    """

    def begin(commands: "master_client.MasterClient") -> experiment_lib.Experiment:
        experiment = commands.continue_experiment(experiment_id, assignments)
        if not as_json:
            click.echo(f"Experiment {experiment.id} goes on.")
        return experiment

    code = 0
    if follow:
        from quintain.cli.experiment import foreground

        code, experiment = foreground.run(begin, is_quiet=as_json)
    else:
        with connect.open_client() as client:
            experiment = begin(client)
    if as_json:
        output.print_json(experiment)
    raise click.exceptions.Exit(code)
