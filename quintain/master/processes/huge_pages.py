"""Huge pages for the memory of a program, where the system has them.

A process of TensorFlow has tens of thousands of small pages, and each takes its time when the
process is copied, and again when the copy ends. glibc asks for huge ones if a variable says so when
the program begins. What the program starts does not get the variable.
"""

import os
from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = "GLIBC_TUNABLES"
_NAME: Final = "glibc.malloc.hugetlb"
_SETTING: Final = f"{_NAME}=0x1"
"""In another spelling than people's, so that theirs is not taken for it."""


def ask(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that a program is started with; who has set it keeps the setting.

    Example:
        >>> ask({"GLIBC_TUNABLES": "glibc.malloc.check=1"})["GLIBC_TUNABLES"]
        'glibc.malloc.check=1:glibc.malloc.hugetlb=0x1'
    """
    own = environment.get(_VARIABLE)
    if own and _NAME in own:
        return dict(environment)
    return {**environment, _VARIABLE: f"{own}:{_SETTING}" if own else _SETTING}


def forget() -> None:
    """Gives this process the variables back that it would have without `ask`."""
    own, separator, setting = os.environ.pop(_VARIABLE, "").rpartition(":")
    if setting != _SETTING:
        own = f"{own}{separator}{setting}"
    if own:
        os.environ[_VARIABLE] = own
