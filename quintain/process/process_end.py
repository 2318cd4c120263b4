"""Exit of a process in which TensorFlow ran."""

import atexit
import contextlib
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """Does what the interpreter does at its end, except for waiting for threads.

    Those that are left wait for TensorFlow: for iterators whose threads sleep, for workers that
    have ended before.

    Args:
        code: The exit code.
    """
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
