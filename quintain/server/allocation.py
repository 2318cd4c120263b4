"""Memory settings of the master's process: allocator and garbage collection."""

import contextlib
import ctypes
import gc
import sys
from typing import Final

_M_ARENA_MAX: Final = -8


def share_arena() -> None:
    """Lets all threads take memory from one place, where the library (glibc) can.

    Otherwise each of up to eight threads a core has a place of its own, and what one of them has
    freed is not used by the others. Threads wait for the interpreter anyway.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # Other libraries have no such setting.
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def spare_imported() -> None:
    """Takes what has been imported out of all searches for garbage: nobody waits for these."""
    gc.freeze()
