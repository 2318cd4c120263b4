"""`quintain tensorboard`: shows trials and runs in TensorBoard."""

import contextlib
import json
import pathlib
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from quintain import errors
from quintain.cli import connect, logs, record_ids
from quintain.cli.lazy_group import FlagCommand
from quintain.cli.training import staged_runs
from quintain.client import calls as calls_lib
from quintain.client.home import home as home_lib
from quintain.records.rows import trial as trial_lib

if TYPE_CHECKING:
    from quintain.cli.training import event_files

MAX_TRIALS: Final = 1000
"""Most trials that are shown: TensorBoard reads a file for each, again and again."""

_HOST: Final = "127.0.0.1"
_REFRESH_SECS: Final = 5.0


@click.command(cls=FlagCommand)
@click.option(
    "--experiment",
    "experiment_id",
    type=int,
    metavar="ID",
    shell_complete=record_ids.complete_experiment,
    help="All trials of a search, by its number in `quintain experiment list`; to show a training, "
    "give its directory to --run.",
)
@click.option(
    "--trial",
    "trial_ids",
    type=int,
    multiple=True,
    metavar="ID",
    shell_complete=record_ids.complete_trial,
    help="One trial of a search, by its number in `quintain trial list`. Repeatable.",
)
@click.option(
    "--run",
    "run_dirs",
    multiple=True,
    callback=lambda context, option, given: _check_runs(context, option, given),
    metavar="DIR",
    help="Directory of a run of `quintain train`, or of several; of one in an object store, what "
    "is there now is shown. Repeatable.",
)
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    default=0,
    show_default="a free one",
    help="Port on the loopback device.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
def tensorboard(
    experiment_id: int | None,
    trial_ids: tuple[int, ...],
    run_dirs: tuple[str, ...],
    port: int,
    as_json: bool,
    until_stdin_closes: bool,
) -> None:
    r"""Show trials and runs in TensorBoard, until Ctrl-C.

    \b
    quintain tensorboard --experiment 3
    quintain tensorboard --trial 5 --trial 8
    quintain tensorboard --run runs/local
    """
    if experiment_id is None and not trial_ids and not run_dirs:
        raise click.UsageError("Say what to show: --experiment ID, --trial ID or --run DIR.")
    logs.set_up(is_verbose=False)
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    if until_stdin_closes:
        threading.Thread(target=_wait_for_stdin, args=[is_over], daemon=True).start()
    with (
        tempfile.TemporaryDirectory(prefix="quintain-tensorboard-") as directory,
        contextlib.ExitStack() as copies,
        contextlib.suppress(KeyboardInterrupt),
    ):
        shown = _Shown(pathlib.Path(directory), experiment_id, trial_ids)
        _link(
            pathlib.Path(directory),
            [
                copies.enter_context(staged_runs.reading(run))
                if staged_runs.is_staged(run)
                else run
                for run in run_dirs
            ],
        )
        shown.refresh()
        url = _launch(directory, port)
        if as_json:
            click.echo(json.dumps({"url": url}))  # One line, for the master.
        else:
            click.echo("TensorBoard runs until Ctrl-C:", err=True)
            click.echo(url)
        sys.stdout.flush()
        while not is_over.wait(_REFRESH_SECS):
            try:
                shown.refresh()
            except (errors.QuintainError, OSError) as error:
                # The master ends or starts; TensorBoard goes on with what it has.
                click.echo(f"Not up to date: {error}", err=True)


class _Shown:
    """The files of trials, which are kept up to date."""

    def __init__(
        self, directory: pathlib.Path, experiment_id: int | None, trial_ids: tuple[int, ...]
    ) -> None:
        self._directory = directory
        self._experiment_id = experiment_id
        self._trial_ids = trial_ids
        self._files: dict[int, event_files.TrialEvents] = {}

    def refresh(self) -> None:
        """Writes what is new.

        Raises:
            ConfigError: If there are too many trials.
            NotFoundError: If one of them does not exist.
        """
        from quintain.cli.training import event_files

        trials = connect.ask(self._list_trials)
        if len(trials) > MAX_TRIALS:
            raise errors.ConfigError(
                f"--experiment: got {len(trials)} trials, but TensorBoard takes at most "
                f"{MAX_TRIALS}; choose some with --trial."
            )
        for trial in trials:
            if trial.id not in self._files:
                name = f"experiment-{trial.experiment_id}/trial-{trial.id}"
                self._files[trial.id] = event_files.TrialEvents(self._directory / name)
                # What it writes itself, if it does, is a run of its own.
                code = home_lib.find_home().path / "experiments" / str(trial.experiment_id)
                (self._directory / name).mkdir(parents=True)
                (self._directory / name / "own").symlink_to(
                    code / home_lib.TENSORBOARD / str(trial.id)
                )
            file = self._files[trial.id]
            if not file.is_complete:
                self._write(file, trial)

    def _write(self, file: "event_files.TrialEvents", trial: trial_lib.TrialRecord) -> None:
        file.write(trial, connect.ask(lambda calls: calls.list_metrics(trial.id)))

    def _list_trials(self, calls: calls_lib.Calls) -> list[trial_lib.TrialRecord]:
        trials = {}
        if self._experiment_id is not None:
            calls.get_experiment(self._experiment_id)
            trials = {trial.id: trial for trial in calls.list_trials(self._experiment_id)}
        for trial_id in self._trial_ids:
            trials[trial_id] = calls.get_trial(trial_id)
        return list(trials.values())


def _check_runs(
    context: click.Context, option: click.Parameter, given: Sequence[str]
) -> tuple[str, ...]:
    """Returns the directories of `--run`; those of this machine have to be there."""
    directories = click.Path(exists=True, file_okay=False)
    return tuple(
        run if staged_runs.is_staged(run) else str(directories.convert(run, option, context))
        for run in given
    )


def _link(directory: pathlib.Path, run_dirs: Sequence[str]) -> None:
    """Shows each directory under its name, with a number where two have the same."""
    for path in dict.fromkeys(pathlib.Path(run).resolve() for run in run_dirs):
        number, link = 1, directory / (path.name or "run")
        while link.is_symlink() or link.exists():
            number += 1
            link = directory / f"{path.name}-{number}"
        link.symlink_to(path)


def _launch(directory: str, port: int) -> str:
    """Starts TensorBoard in threads of this process, and returns its address.

    It asks nobody who they are, so its path is one that nobody guesses.

    Raises:
        ConfigError: If the port is taken.
    """
    from tensorboard import program

    board: Any = program.TensorBoard()
    flags = {
        "logdir": directory,
        "host": _HOST,
        "port": port,
        "path_prefix": f"/{secrets.token_urlsafe(16)}",
        "reload_interval": _REFRESH_SECS,
    }
    board.configure(**flags)
    try:
        url: str = board.launch()
    except program.TensorBoardServerException as error:
        raise errors.ConfigError(f"--port: got {port}, but TensorBoard says: {error}") from error
    return url


def _wait_for_stdin(is_over: threading.Event) -> None:
    """Ends the command with the process that has started it, however that ends."""
    while sys.stdin.buffer.read(4096):
        pass
    is_over.set()
