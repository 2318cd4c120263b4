"""How progress looks: a live line on a terminal, plain lines elsewhere, or nothing."""

import logging
import sys
import time
from types import TracebackType
from typing import Any, Final, Self

PLAIN_INTERVAL_SECS: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class Display:
    """Shows nothing; base of the others."""

    def __enter__(self) -> Self:
        """Starts showing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops showing."""
        self.stop()

    def stop(self) -> None:
        """Leaves the terminal as it was."""

    def log_handler(self) -> logging.Handler | None:
        """Returns a handler that writes log lines between the progress; None for the usual one."""
        return None

    def show_phase(self, text: str) -> None:
        """Says what is done before and between training loops."""

    def show_detail(self, text: str) -> None:
        """Says how far the phase is, where that does not cost a line."""

    def show_line(self, text: str) -> None:
        """Prints a line that stays."""

    def show_training(self, step: int, total: int, rates: str) -> None:
        """Shows how far training is."""


class PlainDisplay(Display):
    """Writes lines, and not many of them."""

    def __init__(self) -> None:
        """Makes the first line of progress appear at once."""
        self._last_secs = -PLAIN_INTERVAL_SECS

    def show_phase(self, text: str) -> None:
        """Writes the phase."""
        self.show_line(f"{text} ...")

    def show_line(self, text: str) -> None:
        """Writes the line."""
        print(text, file=sys.stderr, flush=True)

    def show_training(self, step: int, total: int, rates: str) -> None:
        """Writes the first loop, the last, and in between one every few seconds."""
        now = time.monotonic()
        if now - self._last_secs < PLAIN_INTERVAL_SECS and step < total:
            return
        self._last_secs = now
        self.show_line(f"step {step}/{total}  {rates}")


class LiveDisplay(Display):
    """A live line at the bottom of a terminal."""

    def __init__(self) -> None:
        """Imports rich, which only a terminal needs."""
        from rich import console, progress

        self._console = console.Console(stderr=True, highlight=False)
        self._progress = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.fields[steps]}"),
            progress.TextColumn("{task.fields[rates]}"),
            progress.TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("Starting", total=None, steps="", rates="")

    def __enter__(self) -> Self:
        """Starts the live line."""
        self._progress.start()
        return self

    def stop(self) -> None:
        """Removes the live line."""
        self._progress.stop()

    def log_handler(self) -> logging.Handler:
        """Returns a handler that writes above the live line."""
        display = self

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                display.show_line(self.format(record))

        return Handler()

    def show_phase(self, text: str) -> None:
        """Shows the phase beside a bar without an end."""
        self._progress.update(self._task, description=text, total=None, steps="", rates="")

    def show_detail(self, text: str) -> None:
        """Shows it beside the bar."""
        self._progress.update(self._task, steps=text)

    def show_line(self, text: str) -> None:
        """Prints above the live line."""
        self._console.print(text, markup=False, soft_wrap=True)

    def show_training(self, step: int, total: int, rates: str) -> None:
        """Moves the bar."""
        self._progress.update(
            self._task,
            description="Training",
            completed=step,
            total=total,
            steps=f"{step}/{total}",
            rates=rates,
        )


def create_display(*, is_quiet: bool) -> Display:
    """Returns the display that fits: none if quiet, live on a terminal, plain lines otherwise."""
    if is_quiet:
        return Display()
    return LiveDisplay() if sys.stderr.isatty() else PlainDisplay()


def format_output(output: dict[str, Any], names: dict[str, str]) -> str:
    """Returns the values of some keys in one line, in the order of `names` (key to label)."""
    return "  ".join(
        f"{label} {float(output[name]):.{_digits(float(output[name]))}f}"
        for name, label in names.items()
        if name in output
    )


def _digits(value: float) -> int:
    return 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
