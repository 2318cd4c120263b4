import io
import logging
import sys

import pytest

from quintain.cli import logs
from quintain.terminal import screens


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def open_terminal(monkeypatch):
    """Returns a function that puts a terminal in the place of standard error."""

    def put():
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return put


@pytest.fixture
def clock(monkeypatch):
    """Returns a list with the time, in seconds."""
    now = [1000.0]
    monkeypatch.setattr(screens.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def _package_log(monkeypatch):
    """Lets a test set up the log."""
    package = logging.getLogger("quintain")
    monkeypatch.setattr(package, "handlers", [])
    monkeypatch.setattr(package, "propagate", True)
    monkeypatch.setattr(package, "level", package.level)


def test_the_screen_is_that_of_the_terminal_the_pipe_or_none(open_terminal, monkeypatch):
    terminal = open_terminal()
    assert type(screens.open_screen(is_quiet=False)) is screens.LiveScreen
    assert type(screens.open_screen(is_quiet=True)) is screens.Screen
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    assert type(screens.open_screen(is_quiet=False)) is screens.PlainScreen


def test_a_quiet_screen_shows_nothing(capsys):
    with screens.open_screen(is_quiet=True) as screen:
        screen.show_line("line")
        screen.show_note("note")
        screen.show_state("state", at_once=True)
        screen.draw(lambda _: "drawn")

    assert capsys.readouterr() == ("", "")


def test_lines_tell_the_state_now_and_then(capsys, clock):
    screen = screens.PlainScreen()
    for secs, text in ((0, "first"), (9.9, "soon"), (0.1, "later"), (1, "again")):
        clock[0] += secs
        screen.show_state(text, at_once=False)
    screen.show_state("last", at_once=True)

    assert capsys.readouterr().err.splitlines() == ["first", "later", "last"]


def test_lines_write_what_stays_and_draw_nothing(capsys):
    screen = screens.PlainScreen()
    screen.show_line("line\x1b[2J")
    screen.show_note("note")
    screen.draw(lambda _: "drawn")

    assert capsys.readouterr().err.splitlines() == ["line\\x1b[2J", "note"]


def test_a_terminal_is_drawn_on_and_keeps_lines_above(open_terminal):
    terminal = open_terminal()
    with screens.open_screen(is_quiet=False) as screen:
        screen.draw(lambda num_lines: f"drawn in {num_lines} lines" if num_lines else "")
        screen.show_note("note")
        screen.show_state("state", at_once=True)
        screen.show_line("[bold]line[/bold]\x1b[2J")

    written = terminal.getvalue()
    assert "drawn in " in written
    assert "[bold]line[/bold]\\x1b[2J" in written
    assert "note" not in written
    assert "state" not in written


@pytest.mark.usefixtures("_package_log")
def test_warnings_are_written_above_what_is_drawn(open_terminal):
    terminal = open_terminal()
    logs.set_up(is_verbose=False)
    with screens.open_screen(is_quiet=False) as screen:
        screen.draw(lambda _: "drawn")
        logging.getLogger("quintain.core").warning("be careful")
        assert "Warning: be careful\n" in terminal.getvalue()
        assert terminal.getvalue().rindex("drawn") > terminal.getvalue().index("be careful")
