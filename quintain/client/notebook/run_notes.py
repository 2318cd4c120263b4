"""Record of started trainings (`runs.jsonl` in the home directory), read by the page.

To note a run is a courtesy. Nothing that goes wrong with it stops or slows a training.
"""

import fcntl
import json
import logging
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Final

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.files import atomic_write

FILE_NAME: Final = "runs.jsonl"
MAX_RUNS: Final = 1000
"""Most directories that are remembered; the newest are."""

_MAX_BYTES: Final = 2**20
"""Size at which the file is written anew, without what is told twice."""

logger = logging.getLogger(__name__)


def note(home: home_lib.Home, model_dir: str, experiment: str) -> None:
    """Remembers that a training was started here.

    Args:
        home: The home directory; made if need be.
        model_dir: Directory of the run. One that is not on this machine is not remembered.
        experiment: Name of the registered experiment.
    """
    if "://" in model_dir:
        return
    entry = {"path": os.path.abspath(model_dir), "experiment": experiment, "time": time.time()}
    try:
        home.create()
        _append(home.path / FILE_NAME, f"{json.dumps(entry)}\n".encode())
    except (OSError, errors.QuintainError) as error:
        logger.info("The page will not list this run by itself: %s", error)


def list_paths(home: home_lib.Home) -> list[pathlib.Path]:
    """Returns the directories that are remembered, those of the latest trainings first."""
    try:
        data = (home.path / FILE_NAME).read_bytes()
    except OSError:
        return []
    paths = dict.fromkeys(_read_paths(reversed(data.splitlines())))
    return [pathlib.Path(path) for path in list(paths)[:MAX_RUNS]]


def _read_paths(lines: Iterator[bytes]) -> Iterator[str]:
    for line in lines:
        try:
            path = json.loads(line)["path"]
        except (ValueError, RecursionError, LookupError, TypeError):
            continue  # Half a line, or none of ours.
        if isinstance(path, str) and os.path.isabs(path) and "\0" not in path:
            yield path


def _append(path: pathlib.Path, line: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "ab") as file:
        os.fchmod(descriptor, 0o600)
        file.write(line)
        file.flush()
        if file.tell() > _MAX_BYTES:
            # Who can't have the lock leaves the file to the one who has it.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _shorten(path)


def _shorten(path: pathlib.Path) -> None:
    """Keeps the last line about each of the newest directories. One added meanwhile may be lost."""
    kept: dict[str, bytes] = {}
    for line in reversed(path.read_bytes().splitlines()):
        for name in _read_paths(iter([line])):
            kept.setdefault(name, line)
        if len(kept) == MAX_RUNS:
            break
    atomic_write.write_atomically(
        path, b"".join(b"%s\n" % line for line in reversed(kept.values())), mode=0o600
    )
