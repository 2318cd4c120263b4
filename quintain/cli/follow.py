"""Shows an experiment while it runs: a live table on a terminal, lines elsewhere."""

import logging
import sys
import time
from typing import Any, Final, Literal, Self

import click

from quintain.cli import columns, output, printable
from quintain.cli import snapshot as snapshot_lib
from quintain.records import metric_order
from quintain.records import trial as trial_lib

PLAIN_INTERVAL_SECS: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""

_HEAD_LINES: Final = 6
_MIN_ROWS: Final = 3
_MOST_LINES: Final = 8
"""Lines of a reason that are shown; the logs have all."""

_MAX_FAILURES: Final = 3


class Display:
    """Shows nothing; base of the others."""

    def __enter__(self) -> Self:
        """Starts showing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the terminal as it was."""

    def show(self, snapshot: snapshot_lib.Snapshot) -> None:
        """Shows what changed."""

    def show_line(self, text: str) -> None:
        """Prints a line that stays."""


class PlainDisplay(Display):
    """Writes a line for each trial that starts, is validated or ends, and one now and then."""

    def __init__(self) -> None:
        """Makes the first line of progress appear at once."""
        self._shown: dict[int, trial_lib.Trial] = {}
        self._last_secs = -PLAIN_INTERVAL_SECS
        self._last_state = ""

    def show(self, snapshot: snapshot_lib.Snapshot) -> None:
        """Writes what changed since the last call."""
        for trial in snapshot.trials:
            for line in _describe_change(self._shown.get(trial.id), trial, snapshot):
                self.show_line(line)
            self._shown[trial.id] = trial
        now = time.monotonic()
        state = snapshot.experiment.state.value + snapshot.problem
        if state != self._last_state or now - self._last_secs >= PLAIN_INTERVAL_SECS:
            self._last_secs, self._last_state = now, state
            self.show_line(f"experiment {snapshot.experiment.id}: {snapshot.summarize()}")

    def show_line(self, text: str) -> None:
        """Writes the line."""
        click.echo(printable.clean(text), err=True)


def _describe_change(
    former: trial_lib.Trial | None, trial: trial_lib.Trial, snapshot: snapshot_lib.Snapshot
) -> list[str]:
    """Returns lines on what happened to a trial."""
    lines = []
    metric = snapshot.searcher.get("metric")
    if former is None:
        parent = "" if trial.parent_trial_id is None else f" from trial {trial.parent_trial_id}"
        lines.append(f"trial {trial.id}: created{parent}: {output.format_value(trial.hparams)}")
    if former is not None and trial.restarts > former.restarts:
        lines.append(f"trial {trial.id}: started again (restart {trial.restarts})")
    # As texts: a metric that is not a number does not equal itself.
    is_new_metric = former is None or repr((trial.latest_metric, trial.best_metric)) != repr(
        (former.latest_metric, former.best_metric)
    )
    if trial.latest_metric is not None and is_new_metric:
        value = output.format_value(trial.latest_metric)
        lines.append(f"trial {trial.id}: {metric} {value}, {trial.total_batches} batches done")
    if trial.state.is_terminal and (former is None or not former.state.is_terminal):
        reason = f": {shorten(trial.reason)}" if trial.reason else ""
        lines.append(f"trial {trial.id}: {trial.state.value}{reason}")
    return lines


def shorten(reason: str) -> str:
    """Returns the first and the last lines of a long reason."""
    lines = reason.splitlines()
    if len(lines) <= _MOST_LINES:
        return reason
    half = _MOST_LINES // 2
    return "\n".join([*lines[:half], "  ...", *lines[-half:]])


class LiveDisplay(Display):
    """A table at the bottom of a terminal."""

    def __init__(self) -> None:
        """Imports rich, which only a terminal needs."""
        from rich import console, live

        self._console = console.Console(stderr=True, highlight=False)
        self._live = live.Live(console=self._console, auto_refresh=False, transient=True)
        self._failed: set[int] = set()

    def __enter__(self) -> Self:
        """Starts the table."""
        self._live.start()
        handler = _LineHandler(self)
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        self._logger = logging.getLogger("quintain")
        self._handlers, self._logger.handlers = self._logger.handlers, [handler]
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the table."""
        self._logger.handlers = self._handlers
        self._live.stop()

    def show(self, snapshot: snapshot_lib.Snapshot) -> None:
        """Draws the table anew."""
        for trial in snapshot.trials:
            if trial.state.value == "ERROR" and trial.id not in self._failed:
                self._failed.add(trial.id)
                self.show_line(f"trial {trial.id}: ERROR: {shorten(trial.reason)}")
        rows = max(self._console.size.height - _HEAD_LINES, _MIN_ROWS)
        self._live.update(build_table(snapshot, rows), refresh=True)

    def show_line(self, text: str) -> None:
        """Prints above the table."""
        self._console.print(printable.clean(text), markup=False, soft_wrap=True)


class _LineHandler(logging.Handler):
    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        self._display.show_line(self.format(record))


def build_table(snapshot: snapshot_lib.Snapshot, num_rows: int) -> Any:
    """Returns what rich draws.

    Args:
        snapshot: What to show.
        num_rows: Most trials to show: those that run, then the best.
    """
    from rich import console, progress_bar, table, text

    experiment = snapshot.experiment
    title = printable.clean(f"Experiment {experiment.id}  {columns.name_of(experiment)}")
    elapsed = output.format_secs(snapshot.time - experiment.start_time)
    head = table.Table.grid(padding=(0, 2))
    head.add_row(
        text.Text(title, style="bold"),
        progress_bar.ProgressBar(total=1.0, completed=snapshot.progress, width=30),
        text.Text(elapsed),
    )
    rows = table.Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    # Narrow terminals take the room from the hyperparameters.
    widths = {"trial": 5, "state": 9, "batches": 7, "latest": 7, "best": 7}
    for name, width in widths.items():
        justify: Literal["left", "right"] = "left" if name == "state" else "right"
        rows.add_column(name, justify=justify, no_wrap=True, min_width=width)
    rows.add_column("hyperparameters", no_wrap=True, overflow="ellipsis")
    best = snapshot.best
    shown = _choose(snapshot, num_rows)
    for trial in shown:
        is_best = best is not None and trial.id == best.id
        state = snapshot.describe(trial)
        rows.add_row(
            str(trial.id),
            text.Text(state, style=_STYLES.get(state, "")),
            str(trial.total_batches),
            output.format_value(trial.latest_metric),
            output.format_value(trial.best_metric) + ("*" if is_best else " "),
            text.Text(output.format_value(trial.hparams)),
            style="bold" if is_best else "",
        )
    hidden = len(snapshot.trials) - len(shown)
    parts: list[console.RenderableType] = [head, text.Text(snapshot.summarize()), rows]
    if hidden:
        parts.append(text.Text(f"... and {hidden} more", style="dim"))
    return console.Group(*parts)


_STYLES: Final = {
    "running": "green",
    "waiting": "yellow",
    "paused": "yellow",
    "error": "red",
    "canceled": "red",
}


def _choose(snapshot: snapshot_lib.Snapshot, num_rows: int) -> list[trial_lib.Trial]:
    """Returns the trials to show, by number."""
    if len(snapshot.trials) <= num_rows:
        return snapshot.trials
    ranked = metric_order.rank(
        snapshot.trials,
        lambda trial: trial.best_metric,
        smaller_is_better=bool(snapshot.searcher.get("smaller_is_better", True)),
    )
    running = [trial for trial in snapshot.trials if trial.id in snapshot.running]
    waiting = [trial for trial in snapshot.trials if not trial.state.is_terminal]
    chosen = {trial.id: trial for trial in [*ranked[:1], *running, *ranked, *waiting]}
    return sorted(list(chosen.values())[:num_rows], key=lambda trial: trial.id)


def create_display(*, is_quiet: bool) -> Display:
    """Returns the display that fits: none if quiet, live on a terminal, plain lines otherwise."""
    if is_quiet:
        return Display()
    return LiveDisplay() if sys.stderr.isatty() else PlainDisplay()


def describe_result(snapshot: snapshot_lib.Snapshot, checkpoint_uuid: str | None) -> list[str]:
    """Returns lines on what came out of an experiment.

    Args:
        snapshot: The experiment when it ended.
        checkpoint_uuid: The best checkpoint, if there is one.
    """
    lines = []
    if snapshot.trials:
        lines.append(f"Trials: {columns.count_states(snapshot.trials)}")
    best = snapshot.best
    if best is not None:
        lines.append(f"Best: {columns.describe_best(best, snapshot.searcher)}")
        lines += [f"  {line}" for line in columns.flatten_hparams(best.hparams)]
    if checkpoint_uuid is not None:
        lines.append(f"Checkpoint: quintain checkpoint download {checkpoint_uuid}")
    failed = [trial for trial in snapshot.trials if trial.state.value == "ERROR"]
    for trial in failed[:_MAX_FAILURES]:
        lines.append(f"Failed: trial {trial.id}: {shorten(trial.reason) or 'see its logs'}")
        lines.append(f"  quintain trial logs {trial.id} --tail 20")
    if len(failed) > _MAX_FAILURES:
        lines.append(f"  ... and {len(failed) - _MAX_FAILURES} more trials failed")
    return [printable.clean(line) for line in lines]
