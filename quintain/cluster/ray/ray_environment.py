"""Environment of trials on nodes of Ray, without the variables that Ray gives its workers.

Ray gives its workers variables that change how they compute (`OMP_NUM_THREADS`), what
`breakpoint()` does, and how they reach the cluster, its token among them. A trial is no worker of
Ray.
"""

import os
import pathlib
from collections.abc import Mapping, MutableMapping
from typing import Final

from quintain.client.home import home_database

_PREFIXES: Final = ("RAY_", "SPT_", "QUINTAIN_")
_ADDED: Final = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "CUDA_VISIBLE_DEVICES")
"""What Ray may set in its workers that has a meaning elsewhere, too."""


def clean(environment: MutableMapping[str, str], raylet: Mapping[str, str]) -> None:
    """Takes out of an environment what Ray has put into it, and what asks masters.

    Args:
        environment: Variables of a worker.
        raylet: Variables that Ray's own process of the node was started with.

    Example:
        >>> variables = {"RAY_JOB_ID": "1", "OMP_NUM_THREADS": "1", "HOME": "/home/me"}
        >>> clean(variables, {"HOME": "/home/me"})
        >>> variables
        {'HOME': '/home/me'}
    """
    home_database.hide(environment)
    for name in [*environment]:
        if name.startswith(_PREFIXES):
            del environment[name]
    for name in _ADDED:
        environment.pop(name, None)
        if name in raylet:
            environment[name] = raylet[name]


def read_raylet(pid: int) -> dict[str, str]:
    """Returns the variables that a process was started with; none if they can't be read."""
    try:
        content = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(each).partition("=") for each in content.split(b"\0") if each)
    return {name: value for name, _, value in pairs}
