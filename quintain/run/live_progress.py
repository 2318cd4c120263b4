"""Live progress of a training that a program starts: a bar, a notebook table, or the log."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args

from typing_extensions import override

from quintain import errors, orbit
from quintain.core.reports import shown_metrics
from quintain.run import history as history_lib

_NOTEBOOK: Final = "IPython"


Verbose = Literal["auto", 0, 1, 2]
"""Verbosity in Keras' words: of its own accord, nothing, a bar, or lines."""


@contextlib.contextmanager
def default_reporter(
    labels: Mapping[str, shown_metrics.MetricLabel], verbose: Verbose = "auto"
) -> Iterator[orbit.Reporter]:
    """Yields the reporter of a training for which the caller has named none.

    In a notebook a table with curves moves; on a terminal a bar; elsewhere the log has it.

    Args:
        labels: Labels of metrics, the most important first.
        verbose: 0 shows nothing, 2 lines, and 1 lines where there are neither notebook nor
            terminal.

    Raises:
        ConfigError: If `verbose` is something else.
    """
    if verbose not in get_args(Verbose):
        raise errors.ConfigError(
            f"verbose: got {errors.show(verbose)}, expected 'auto', 0, 1 or 2."
        )
    if verbose == 0:
        yield orbit.Reporter()
        return
    if verbose != 2 and in_notebook():
        yield NotebookReporter(sys.modules[_NOTEBOOK])
        return
    if verbose == "auto" and not sys.stderr.isatty():
        yield orbit.LogReporter()
        return
    from quintain.run import train_reporter  # noqa: PLC0415 - only terminals show it
    from quintain.terminal import screens, training_display  # noqa: PLC0415 - as above

    screen = (
        screens.PlainScreen()
        if verbose == 2
        else screens.open_screen(
            is_quiet=False, refreshes_per_sec=training_display.REFRESHES_PER_SEC
        )
    )
    with screen:
        display = training_display.TrainingDisplay(screen)
        yield train_reporter.TrainReporter(display, labels)


def in_notebook() -> bool:
    """Returns whether this process answers the cells of a notebook."""
    module = sys.modules.get(_NOTEBOOK)
    shell = None if module is None else module.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookReporter(orbit.Reporter):
    """Shows how far training is, with curves, below the cell that started it."""

    def __init__(self, ipython: Any) -> None:
        """Shows nothing yet.

        Args:
            ipython: The module `IPython`, which a notebook has loaded.
        """
        self._display = ipython.display
        self._handle: Any = None
        self._history = history_lib.History()
        self._target = 0

    @override
    def on_train_begin(self, step: int, target_steps: int) -> None:
        self._target = target_steps
        self._show(f"step {step:,} of {target_steps:,}")

    @override
    def on_train_loop(
        self,
        step: int,
        target_steps: int,
        output: Mapping[str, Any],
        loop_secs: float,
        num_steps: int,
    ) -> None:
        self._history.add_loop(step, output)
        rate = f"{num_steps / loop_secs:,.1f} steps/s" if loop_secs > 0 else ""
        self._show(f"step {step:,} of {target_steps:,}  {rate}")

    @override
    def on_eval_begin(self, step: int, num_steps: int) -> None:
        self._show(f"step {step:,} of {self._target:,}  evaluating")

    @override
    def on_eval_end(self, step: int, output: Mapping[str, Any], secs: float) -> None:
        self._history.add_evaluation(step, output)
        self._show(f"step {step:,} of {self._target:,}  evaluated in {secs:.1f} s")

    @override
    def on_restore(self, step: int, path: str) -> None:
        self._display.display(f"Going on from {path} (step {step:,}).")

    @override
    def on_message(self, text: str) -> None:
        self._display.display(text)

    def _show(self, note: str) -> None:
        shown = self._display.HTML(history_lib.to_html(self._history, note))
        if self._handle is None:
            self._handle = self._display.display(shown, display_id=True)
        else:
            self._handle.update(shown)
