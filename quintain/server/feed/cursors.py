"""Cursors: texts that say up to which change of the store somebody knows all."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quintain.store import reading

_HOME_LENGTH: Final = 8


def find_newest(session: "reading.Reader") -> str:
    """Returns the cursor of what a reading transaction sees."""
    return write(find_home(session), session.get_change_bounds()[1])


def find_home(session: "reading.Reader") -> str:
    """Returns what all cursors of the store's home begin with."""
    return (session.get_home_id() or "")[:_HOME_LENGTH]


def write(home: str, change_id: int) -> str:
    """Returns a cursor."""
    return f"{home}-{change_id}"


def parse(text: str, home: str) -> int | None:
    """Returns the number of the change that a cursor names, or None if it is of another home.

    Example:
        >>> parse("0b1c2d3e-17", "0b1c2d3e"), parse("other-17", "0b1c2d3e"), parse("x", "")
        (17, None, None)
    """
    found, _, number = text.rpartition("-")
    if found != home or not number.isascii() or not number.isdecimal() or len(number) > 18:
        return None
    return int(number)
