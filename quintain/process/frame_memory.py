"""Calls a function with room for the frames of all that it calls.

CPython keeps the frames of running Python functions in blocks of 16 KiB. A loop whose calls go just
over the end of a block has the next one mapped and unmapped again at each of them, by two calls of
the system; a start of TensorFlow makes 30,000 such calls, for 4 to 5 % of its processor time. A
frame that asks for more than a block holds gets a larger one, of which later frames have the rest.
"""

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_WORDS: Final = 66_000
"""What the frame asks for: just over 512 KiB, so that its block has 1 MiB. None is touched."""


def call_with_room(function: Callable[[], T]) -> T:
    """Returns what `function` returns; frames of 500 KiB, some thousands, fit above its own."""
    return function()


call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=_WORDS)
