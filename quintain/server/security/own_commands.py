"""Commands of this package in processes of their own, which commands and the master start.

What the master starts so imports TensorFlow, or lasts; the master does neither.
"""

import os
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import IO, Final

import quintain
from quintain import errors
from quintain.client.home import home as home_lib

_MAX_PROBLEM: Final = 2000
_BAD_INPUT: Final = 2
"""Exit code of a command that was asked for what it can't do."""


def build(*arguments: str) -> Sequence[str]:
    """Returns how a command is started: `build("checkpoint", "export", uuid)`."""
    return [sys.executable, "-m", "quintain.cli.main", *arguments]


def build_environment(home: home_lib.Home) -> dict[str, str]:
    """Returns the environment of a command that finds these modules and this home anywhere."""
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    paths = [*map(os.path.abspath, given), str(pathlib.Path(quintain.__file__).parents[1])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        home_lib.HOME_VARIABLE: str(home.path),
    }


def explain(problems: IO[bytes], exit_code: int, doing: str) -> errors.QuintainError:
    """Returns the error of a command that has ended without success.

    Args:
        problems: What it wrote to its standard error.
        exit_code: How it ended.
        doing: What did not work, such as `TensorBoard does not start`.
    """
    size = problems.seek(0, os.SEEK_END)
    problems.seek(max(size - _MAX_PROBLEM, 0))
    text = problems.read().decode("utf-8", errors="replace").strip()
    if exit_code == _BAD_INPUT:
        told = re.search(r"^Error: ", text, re.MULTILINE)  # Warnings may stand before it.
        return errors.ConfigError(text[told.end() :] if told else text)
    return errors.ClusterError(f"{doing}: {text}")
