"""Runs or follows an experiment in the foreground, and what Ctrl-C and a closed terminal do then.

Ctrl-C and SIGTERM pause the experiment that the command runs. A terminal that is closed (SIGHUP),
or a pipe without a reader, takes only the display away: the experiment goes on in a master in the
background.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

import click

from quintain import errors
from quintain.cli import columns, connect, page_links, standard_streams
from quintain.cli.display import experiment_display
from quintain.cli.display import snapshot as snapshot_lib
from quintain.cli.experiment import endings
from quintain.client import calls as calls_lib
from quintain.client.home import home as home_lib
from quintain.process import told_again
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import states
from quintain.terminal import screens

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECS: Final = 0.5
_END_SECS: Final = 0.05
"""The end of an experiment is noticed in this time, where its master is in this process."""

_REST_FACTOR: Final = 20.0
"""Looking at an experiment takes at most one part in so many of the time."""

if TYPE_CHECKING:
    from quintain.client import master_client
    from quintain.client.home import master_file
    from quintain.master.processes import launcher as launcher_lib

Begin = Callable[["master_client.MasterClient"], experiment_lib.Experiment]


class Interrupts:
    """Notes signals that ask the command to end, instead of raising `KeyboardInterrupt`."""

    def __init__(self) -> None:
        """Starts with none."""
        self.event = threading.Event()
        self.number = signal.SIGINT
        self._requests = told_again.Requests()
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Catches signals."""
        for number in _SIGNALS:
            # What was started with `nohup` does not hear of its terminal.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        """Lets signals do what they did before."""
        if self.is_hung_up:
            # It comes more than once, and must not end what is to be done now.
            self._former[signal.SIGHUP] = signal.SIG_IGN
        for number, handler in self._former.items():
            signal.signal(number, handler)

    @property
    def is_hung_up(self) -> bool:
        """True if the terminal is gone."""
        return self.number is signal.SIGHUP

    def clear(self) -> None:
        """Forgets the signals that came so far."""
        self.event.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self.is_hung_up:
            self.number = signal.Signals(number)
        if not self._requests.is_told_again():
            self.event.set()


def run(
    begin: Begin,
    *,
    num_slots: int | None = None,
    threads_per_slot: int | None = None,
    is_quiet: bool = False,
    launcher: "launcher_lib.Launcher | None" = None,
) -> tuple[int, experiment_lib.Experiment]:
    """Begins an experiment and follows it to its end, in a master of its own if none runs.

    That master goes on in the background if other experiments run, or if at the end its page was
    looked at or asked for.

    Args:
        begin: Creates the experiment, or makes it go on.
        num_slots: Slots of the master, if it is started here.
        threads_per_slot: CPU threads of each.
        is_quiet: Whether to show nothing.
        launcher: Starts the processes of that master.

    Returns:
        The exit code and the experiment.
    """
    standard_streams.outlive_readers()
    home = home_lib.find_home()
    found = home_lib.find_master(home)
    if found is None:
        # FastAPI, which other commands need not wait for.
        from quintain.server.http import home_watch

        try:
            return _run_embedded(
                begin, home, num_slots, threads_per_slot, is_quiet=is_quiet, launcher=launcher
            )
        except home_watch.MasterRunningError:
            # It has started after the look at the file.
            found = connect.wait_for_master(home)
            if found is None:
                raise
    with connect.connect_to(home, found) as client:
        if num_slots is not None or threads_per_slot is not None:
            click.echo(f"--slots: left aside; the master runs already ({found.name}).", err=True)
        foreground = _Foreground(
            client,
            is_embedded=False,
            is_quiet=is_quiet,
            build_link=lambda: client.build_link(stays=True).url,
        )
        return foreground.run(begin, client)


def _run_embedded(
    begin: Begin,
    home: home_lib.Home,
    num_slots: int | None,
    threads_per_slot: int | None,
    *,
    is_quiet: bool,
    launcher: "launcher_lib.Launcher | None",
) -> tuple[int, experiment_lib.Experiment]:
    from quintain.server import daemon

    slots = daemon.find_slots(num_slots, threads_per_slot)
    settings = daemon.ServerSettings(is_embedded=True)
    with daemon.MasterServer(home, slots=slots, launcher=launcher, settings=settings) as server:
        foreground = _Foreground(
            server.calls,
            is_embedded=True,
            is_quiet=is_quiet,
            build_link=lambda: server.sign_in.build_link(stays=True),
            check=server.check,
            is_over=lambda number: server.master.status_of(number) is None,
        )
        with connect.connect_to(home, server.file) as client:
            code, experiment = foreground.run(begin, client)
        if foreground.quits_now:
            server.kill_on_exit()
        has_work, run_dirs = server.has_work(), server.run_dirs
        is_looked_at = experiment.state.is_terminal and server.sign_in.is_wanted
        goes_on = not foreground.quits_now and (has_work or is_looked_at)
    if goes_on:
        found = connect.start_in_background(
            home, num_slots=num_slots, threads_per_slot=threads_per_slot, run_dirs=run_dirs
        )
        what = "Other experiments go" if has_work else "The page goes"
        if foreground.is_detached:
            what = "The experiment goes"
        click.echo(f"{what} on in a master in the background (process {found.pid}).", err=True)
        if experiment.state.is_terminal and not is_quiet:
            _show_page(home, found, experiment.id)
    return code, experiment


def _show_page(home: home_lib.Home, found: "master_file.MasterFile", experiment_id: int) -> None:
    minutes = connect.IDLE_TIMEOUT_SECS / 60
    click.echo(
        f"It ends by itself when nothing runs and nobody looks for {minutes:.0f} minutes. "
        "To end it now:\n  quintain master stop",
        err=True,
    )
    with connect.connect_to(home, found) as client:
        page_links.show(
            lambda: client.build_link(stays=True).url, view=f"experiments/{experiment_id}"
        )


class _Foreground:
    """Follows one experiment."""

    def __init__(
        self,
        calls: calls_lib.Calls,
        *,
        is_embedded: bool,
        is_quiet: bool,
        build_link: Callable[[], str] | None = None,
        check: Callable[[], None] = lambda: None,
        is_over: Callable[[int], bool] | None = None,
    ) -> None:
        self._calls = calls
        self._check = check
        self._is_over = is_over
        self._is_waiting = False
        self._build_link = build_link
        self._is_embedded = is_embedded
        self._is_quiet = is_quiet
        self.quits_now = False
        self.is_detached = False

    def run(
        self, begin: Begin, commands: "master_client.MasterClient"
    ) -> tuple[int, experiment_lib.Experiment]:
        """Returns the exit code and the experiment."""
        with Interrupts() as interrupts:
            experiment = begin(commands)
            if not self._is_quiet:
                click.echo(
                    "If this terminal is closed, it goes on in the background:\n"
                    f"  quintain experiment follow {experiment.id}",
                    err=True,
                )
                if self._build_link is not None:
                    page_links.show(self._build_link, view=f"experiments/{experiment.id}")
            while True:
                last = self.follow(experiment.id, interrupts)
                if last.experiment.state.is_terminal:
                    return self._finish(last), last.experiment
                if _is_alone(interrupts):
                    return self._detach(interrupts), last.experiment
                wants_to_leave = self._wants_to_leave(experiment.id, interrupts)
                if _is_alone(interrupts):
                    continue
                if wants_to_leave:
                    break
                interrupts.clear()
            self._leave(experiment.id, interrupts, commands)
            experiment = self._calls.get_experiment(experiment.id)
            if not experiment.state.is_terminal:
                return 128 + interrupts.number, experiment
            last = snapshot_lib.Follower(self._calls, experiment.id).take()
            return self._finish(last), last.experiment

    def watch(self, experiment_id: int) -> int:
        """Shows an experiment that goes on whatever happens here, and returns the exit code."""
        with Interrupts() as interrupts:
            last = self.follow(experiment_id, interrupts)
            if last.experiment.state.is_terminal:
                return self._finish(last)
            return self._detach(interrupts)

    def _finish(self, last: snapshot_lib.Snapshot) -> int:
        self._print_result(last)
        return endings.EXIT_CODES[last.experiment.state]

    def _detach(self, interrupts: Interrupts) -> int:
        self.is_detached = True
        is_signal = interrupts.event.is_set()
        return 128 + interrupts.number if is_signal else standard_streams.EXIT_BROKEN_PIPE

    def follow(self, experiment_id: int, interrupts: Interrupts) -> snapshot_lib.Snapshot:
        """Shows the experiment until it has ended, a signal comes, or nobody looks any more."""
        with screens.open_screen(is_quiet=self._is_quiet) as screen:
            display = experiment_display.ExperimentDisplay(screen)
            follower = snapshot_lib.Follower(self._calls, experiment_id)
            while True:
                start_secs = time.monotonic()
                self._check()
                snapshot = self._take_snapshot(follower, interrupts)
                if snapshot is None:
                    continue
                self._is_waiting = False
                display.show(snapshot)
                took_secs = time.monotonic() - start_secs
                if snapshot.experiment.state.is_terminal or standard_streams.is_lost():
                    return snapshot
                pause_secs = max(_POLL_SECS, _REST_FACTOR * took_secs)
                if self._wait(pause_secs, experiment_id, interrupts):
                    return snapshot

    def _wait(self, secs: float, experiment_id: int, interrupts: Interrupts) -> bool:
        """Waits until it is time to look again, and returns whether a signal came first.

        A master in this process is asked in between whether the experiment has ended.
        """
        if self._is_over is None:
            return interrupts.event.wait(secs)
        end_secs = time.monotonic() + secs
        while (left_secs := end_secs - time.monotonic()) > 0:
            if interrupts.event.wait(min(left_secs, _END_SECS)):
                return True
            if self._is_over(experiment_id):
                return False
        return False

    def _take_snapshot(
        self, follower: snapshot_lib.Follower, interrupts: Interrupts
    ) -> snapshot_lib.Snapshot | None:
        """Returns how the experiment is, or None after a moment if the database is away."""
        try:
            return follower.take()
        except errors.StoreAwayError as error:
            if not self._is_waiting:
                click.echo(f"{error} The experiment waits for it.", err=True)
            self._is_waiting = True
            if interrupts.event.wait(_POLL_SECS):
                raise
            return None

    def _wants_to_leave(self, experiment_id: int, interrupts: Interrupts) -> bool:
        """Asks, if there is somebody to ask."""
        is_asked = interrupts.number is signal.SIGINT and _has_terminal()
        if not is_asked:
            return True
        former = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return click.confirm(
                f"Pause experiment {experiment_id} and leave? (Ctrl-C: quit at once)",
                default=True,
                err=True,
            )
        except (click.Abort, KeyboardInterrupt, OSError):
            # Also what a terminal answers that is just being closed.
            self.quits_now = not _is_alone(interrupts)
            return True
        finally:
            signal.signal(signal.SIGINT, former)

    def _leave(
        self, experiment_id: int, interrupts: Interrupts, commands: "master_client.MasterClient"
    ) -> None:
        """Pauses the experiment and waits until its processes have ended, or quits at once.

        It may have ended, or be about to, before the question was answered.
        """
        interrupts.clear()
        try:
            state = commands.apply(experiment_id, "pause").state
        except errors.StateError:
            state = self._calls.get_experiment(experiment_id).state
            if state is states.ExperimentState.ACTIVE:
                raise
        if state.is_terminal:
            return
        if not self.quits_now:
            click.echo(
                "Pausing: trials finish their workload and save themselves. Ctrl-C again quits at "
                "once.",
                err=True,
            )
            self.quits_now = not self._wait_until_idle(experiment_id, interrupts)
        if self.quits_now and self._is_embedded:
            click.echo("Quitting; work since the last checkpoints is lost.", err=True)
        if not self._calls.get_experiment(experiment_id).state.is_terminal:
            click.echo(
                f"Experiment {experiment_id} is paused. To go on:\n"
                f"  quintain experiment activate {experiment_id}",
                err=True,
            )

    def _wait_until_idle(self, experiment_id: int, interrupts: Interrupts) -> bool:
        """Returns whether it has ended, or no process of it runs, before another signal."""
        follower = snapshot_lib.Follower(self._calls, experiment_id)
        while True:
            snapshot = follower.take()
            state = snapshot.experiment.state
            if state.is_terminal or not (state.is_stopping or snapshot.running):
                return True
            if interrupts.event.wait(_POLL_SECS / 2):
                if not interrupts.is_hung_up:
                    return False
                # Pausing was asked for, and needs no terminal.
                interrupts.clear()

    def _print_result(self, last: snapshot_lib.Snapshot) -> None:
        if self._is_quiet:
            return
        uuid = None
        if last.best is not None:
            checkpoints = self._calls.list_checkpoints(trial_id=last.best.id)
            uuid = columns.to_best_row(last.best, checkpoints, last.searcher)["checkpoint"]
        lines: Sequence[str] = endings.describe_result(last, uuid)
        click.echo("\n".join([endings.describe_end(last.experiment), *lines]))


def watch(experiment_id: int) -> int:
    """Shows an experiment until it ends, and returns the exit code; it goes on if this is ended.

    Raises:
        MasterUnreachableError: If it waits for a master, and none runs.
    """
    standard_streams.outlive_readers()
    home = home_lib.find_home()
    with connect.open_calls() as calls:
        experiment = calls.get_experiment(experiment_id)
        if not experiment.state.is_terminal and home_lib.find_master(home) is None:
            raise errors.MasterUnreachableError(
                f"Experiment {experiment_id} is {experiment.state.value}, but no master runs for "
                f"{home.path}. To go on with it: "
                f"quintain experiment activate {experiment_id} --follow"
            )
        return _Foreground(calls, is_embedded=False, is_quiet=False).watch(experiment_id)


def _is_alone(interrupts: Interrupts) -> bool:
    """True if nobody is there any more to look or to answer."""
    return interrupts.is_hung_up or standard_streams.is_lost()


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
