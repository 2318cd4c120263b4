"""Screens of progress: drawn at the bottom of a terminal, in lines elsewhere, or silent."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from typing_extensions import override

from quintain.terminal import printable

if TYPE_CHECKING:
    from rich import console

PLAIN_INTERVAL_SECS: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class Screen:
    """Shows nothing; base of the others."""

    def __enter__(self) -> Self:
        """Starts showing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stops showing."""
        self.stop()

    def stop(self) -> None:
        """Leaves the terminal as it was."""

    def show_line(self, text: str) -> None:
        """Writes a line that stays."""

    def show_note(self, text: str) -> None:
        """Writes a line about what can be seen where it is drawn."""

    def show_state(self, text: str, *, at_once: bool) -> None:
        """Says how far things are, where that is not drawn: now and then, or `at_once`."""

    def draw(self, build: Callable[[int], "console.RenderableType"]) -> None:
        """Draws what changes at the bottom of a terminal anew.

        Args:
            build: Is given the number of lines there are, and returns what rich draws.
        """


class PlainScreen(Screen):
    """Writes lines, and not many of them."""

    def __init__(self) -> None:
        """Makes the first line of progress appear at once."""
        self._last_secs = -PLAIN_INTERVAL_SECS

    @override
    def show_line(self, text: str) -> None:
        print(printable.clean(text), file=sys.stderr, flush=True)

    @override
    def show_note(self, text: str) -> None:
        self.show_line(text)

    @override
    def show_state(self, text: str, *, at_once: bool) -> None:
        now = time.monotonic()
        if at_once or now - self._last_secs >= PLAIN_INTERVAL_SECS:
            self._last_secs = now
            self.show_line(text)


class LiveScreen(Screen):
    """Draws at the bottom of a terminal; lines, also those of the log, go above it."""

    def __init__(self, *, refreshes_per_sec: float) -> None:
        """Imports rich, which only a terminal needs.

        Args:
            refreshes_per_sec: How often to draw what changes by itself, such as a clock; 0 if
                nothing does.
        """
        from rich import console, live

        self._console = console.Console(stderr=True, highlight=False)
        self._live = live.Live(
            console=self._console,
            auto_refresh=refreshes_per_sec > 0,
            refresh_per_second=refreshes_per_sec or 1,
            transient=True,
        )

    @override
    def __enter__(self) -> Self:
        self._live.start()
        return self

    @override
    def stop(self) -> None:
        self._live.stop()

    @override
    def show_line(self, text: str) -> None:
        self._console.print(printable.clean(text), markup=False, soft_wrap=True)

    @override
    def draw(self, build: Callable[[int], "console.RenderableType"]) -> None:
        self._live.update(build(self._console.size.height), refresh=True)


def open_screen(*, is_quiet: bool, refreshes_per_sec: float = 0.0) -> Screen:
    """Returns the screen that fits: none if quiet, live on a terminal, plain lines otherwise.

    Args:
        is_quiet: Whether to show nothing.
        refreshes_per_sec: How often a live one draws what changes by itself.
    """
    if is_quiet:
        return Screen()
    if sys.stderr.isatty():
        return LiveScreen(refreshes_per_sec=refreshes_per_sec)
    return PlainScreen()
