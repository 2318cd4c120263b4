"""Shows an experiment while it runs: a live table on a terminal, lines elsewhere."""

from typing import TYPE_CHECKING, Final, Literal

from quintain.cli import columns, output
from quintain.cli.display import snapshot as snapshot_lib
from quintain.records.rows import states
from quintain.records.rows import trial as trial_lib
from quintain.records.views import metric_order
from quintain.terminal import printable, screens

if TYPE_CHECKING:
    from rich import console

_HEAD_LINES: Final = 6
_MIN_ROWS: Final = 3
_MOST_LINES: Final = 8
"""Lines of a reason that are shown; the logs have all."""


class ExperimentDisplay:
    """Shows the trials: a table, or a line for each that starts, is validated or ends."""

    def __init__(self, screen: screens.Screen) -> None:
        """Stores where to show them."""
        self._screen = screen
        self._shown: dict[int, trial_lib.TrialRecord] = {}
        self._last_state = ""

    def show(self, snapshot: snapshot_lib.Snapshot) -> None:
        """Shows what changed since the last call."""
        for trial in snapshot.trials:
            former = self._shown.get(trial.id)
            for line in _describe_change(former, trial, snapshot):
                self._screen.show_note(line)
            if end := _describe_end(former, trial):
                # An error is what a row of the table has no room for.
                is_error = trial.state is states.TrialState.ERROR
                show = self._screen.show_line if is_error else self._screen.show_note
                show(end)
            self._shown[trial.id] = trial
        state = snapshot.experiment.state.value + snapshot.problem
        self._screen.show_state(
            f"experiment {snapshot.experiment.id}: {snapshot.summarize()}",
            at_once=state != self._last_state,
        )
        self._last_state = state
        self._screen.draw(
            lambda num_lines: build_table(snapshot, max(num_lines - _HEAD_LINES, _MIN_ROWS))
        )


def _describe_change(
    former: trial_lib.TrialRecord | None,
    trial: trial_lib.TrialRecord,
    snapshot: snapshot_lib.Snapshot,
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
    return lines


def _describe_end(former: trial_lib.TrialRecord | None, trial: trial_lib.TrialRecord) -> str | None:
    """Returns a line on how a trial ended, if it has just done so."""
    if not trial.state.is_terminal or (former is not None and former.state.is_terminal):
        return None
    reason = f": {shorten(trial.reason)}" if trial.reason else ""
    return f"trial {trial.id}: {trial.state.value}{reason}"


def shorten(reason: str) -> str:
    """Returns the first and the last lines of a long reason."""
    lines = reason.splitlines()
    if len(lines) <= _MOST_LINES:
        return reason
    half = _MOST_LINES // 2
    return "\n".join([*lines[:half], "  ...", *lines[-half:]])


def build_table(snapshot: snapshot_lib.Snapshot, num_rows: int) -> "console.Group":
    """Returns what rich draws.

    Args:
        snapshot: What to show.
        num_rows: Most trials to show: those that run, then the best.
    """
    from rich import console, progress_bar, table, text

    experiment = snapshot.experiment
    title = printable.clean(f"Experiment {experiment.id}  {columns.name_of(experiment)}")
    elapsed = output.format_secs(max(snapshot.time - experiment.start_time, 0.0))
    head = table.Table.grid(padding=(0, 2))
    head.add_row(
        text.Text(title, style="bold"),
        progress_bar.ProgressBar(total=1.0, completed=snapshot.progress, width=30),
        text.Text(elapsed),
    )
    rows = table.Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    best = snapshot.best
    shown = _choose(snapshot, num_rows)
    states_width = max((len(snapshot.describe(trial)) for trial in shown), default=0)
    # Narrow terminals take the room from the hyperparameters.
    widths = {"trial": 5, "state": max(states_width, 9), "batches": 7, "latest": 7, "best": 7}
    for name, width in widths.items():
        justify: Literal["left", "right"] = "left" if name == "state" else "right"
        rows.add_column(name, justify=justify, no_wrap=True, min_width=width)
    rows.add_column("hyperparameters", no_wrap=True, overflow="ellipsis")
    for trial in shown:
        is_best = best is not None and trial.id == best.id
        state = snapshot.describe(trial)
        rows.add_row(
            str(trial.id),
            text.Text(
                state, style="green" if trial.id in snapshot.work else _STYLES.get(state, "")
            ),
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
    "waiting": "yellow",
    "paused": "yellow",
    "error": "red",
    "canceled": "red",
}


def _choose(snapshot: snapshot_lib.Snapshot, num_rows: int) -> list[trial_lib.TrialRecord]:
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
