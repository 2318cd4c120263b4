"""Token handover to a trial's process, hidden from other processes.

A copy of a warm process is given it as a variable, which the system does not see. What a process
is begun with, though, the system shows to all programs of the user as long as it lives
(`/proc/PID/environ`), whatever the process does to it. So a fresh one is given a pipe to read.
"""

import os
from collections.abc import Mapping, MutableMapping
from typing import Final

VARIABLE: Final = "QUINTAIN_TOKEN"
"""Holds the token."""

DESCRIPTOR: Final = "QUINTAIN_TOKEN_DESCRIPTOR"
"""Number of a file that holds it instead, and can be read once."""


def hide(environment: MutableMapping[str, str]) -> None:
    """Puts the token among some variables into a pipe, for the program that this one becomes."""
    token = environment.pop(VARIABLE, "")
    if token:
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as file:
            file.write(token.encode())
        os.set_inheritable(reading, True)
        environment[DESCRIPTOR] = str(reading)


def read(environment: Mapping[str, str]) -> str:
    """Returns the token that a process was handed, or an empty text. A pipe is read once."""
    token, descriptor = environment.get(VARIABLE, ""), environment.get(DESCRIPTOR, "")
    if token or not descriptor.isdecimal():
        return token
    try:
        with os.fdopen(int(descriptor), "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
