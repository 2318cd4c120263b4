"""Index of `quintain train` runs, below some folders and noted in the home.

A run is a directory with a `params.yaml`. Its name in addresses is drawn from its path; nothing
that stands in an address is ever opened.
"""

import base64
import collections
import dataclasses
import hashlib
import logging
import os
import pathlib
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from quintain import errors

PARAMS_FILE: Final = "params.yaml"

MAX_DEPTH: Final = 6
"""How deep below a folder runs are looked for."""

MAX_DIRECTORIES: Final = 20_000
"""Most directories that are looked into, of all folders together."""

MAX_RUNS: Final = 2_000
"""Most runs that are listed."""

_FRESH_SECS: Final = 2.0
PARTS_OF_RUNS: Final = frozenset({"train", "validation", "translations", "logs"})
"""Directories in that of a run with what it records."""


logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FoundRun:
    """A directory of a run."""

    name: str
    """Its name in addresses."""

    label: str
    """Its name for people."""

    path: pathlib.Path
    """The directory, without links."""


class RunIndex:
    """Finds runs, and looks again when what it knows is some seconds old.

    Args:
        directories: Folders to look into. Links in them are not followed.
        list_noted: Returns directories of runs that were started here.
        clock: Returns seconds that only rise.
    """

    def __init__(
        self,
        directories: Iterable[pathlib.Path],
        list_noted: Callable[[], Iterable[pathlib.Path]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directories = tuple(directories)
        self._list_noted = list_noted
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: dict[str, FoundRun] = {}
        self._found_secs: float | None = None
        self._has_warned = False

    def add(self, directories: Iterable[pathlib.Path]) -> None:
        """Looks into further folders from now on."""
        with self._lock:
            self._directories = tuple(dict.fromkeys((*self._directories, *directories)))
            self._found_secs = None

    @property
    def directories(self) -> tuple[pathlib.Path, ...]:
        """Folders that are looked into."""
        with self._lock:
            return self._directories

    def list_runs(self) -> list[FoundRun]:
        """Returns all runs, those of folders first."""
        with self._lock:
            if self._found_secs is None or self._clock() - self._found_secs > _FRESH_SECS:
                self._runs = {run.name: run for run in self._find()}
                self._found_secs = self._clock()
            return list(self._runs.values())

    def get(self, name: str) -> FoundRun:
        """Returns the run of a name.

        Raises:
            NotFoundError: If there is none.
        """
        found = self._runs.get(name)
        if found is None or not is_run(found.path):
            found = next((run for run in self.list_runs() if run.name == name), None)
        if found is None or not is_run(found.path):
            raise errors.NotFoundError(
                f"run {name[:200]!r}: there is none of this name; /runs lists them."
            )
        return found

    def _find(self) -> Iterator[FoundRun]:
        seen: set[pathlib.Path] = set()
        for path, label in self._iterate():
            if path in seen:
                continue
            if len(seen) == MAX_RUNS:
                self._warn(f"{MAX_RUNS} runs are listed, and no more")
                return
            seen.add(path)
            yield FoundRun(make_name(path), label, path)

    def _iterate(self) -> Iterator[tuple[pathlib.Path, str]]:
        left = MAX_DIRECTORIES
        for directory in self._directories:
            root = directory.expanduser().resolve()
            waiting = collections.deque([(root, 0)])
            while waiting:
                path, depth = waiting.popleft()
                left -= 1
                if left < 0:
                    self._warn(f"{MAX_DIRECTORIES} directories were looked into, and no more")
                    break
                if is_run(path):
                    yield path, path.relative_to(root).as_posix() if path != root else root.name
                if depth < MAX_DEPTH:
                    waiting.extend((below, depth + 1) for below in _list_directories(path))
        for noted in self._list_noted():
            path = noted.resolve()
            if is_run(path):
                yield path, "/".join(path.parts[-2:])

    def _warn(self, reason: str) -> None:
        """Says once that there may be more."""
        if not self._has_warned:
            logger.warning("Runs: %s. Give --runs folders that hold fewer.", reason)
            self._has_warned = True


def make_name(path: pathlib.Path) -> str:
    """Returns what stands for a directory in addresses."""
    digest = hashlib.blake2s(os.fsencode(path), digest_size=9).digest()
    return base64.urlsafe_b64encode(digest).decode()


def is_run(path: pathlib.Path) -> bool:
    """True if a directory is that of a run: it has settings, in a file of its own."""
    try:
        return stat.S_ISREG((path / PARAMS_FILE).lstat().st_mode)
    except OSError:
        return False


def list_beside(path: pathlib.Path) -> list[FoundRun]:
    """Returns the runs in the folder of a run, itself among them."""
    below = _list_directories(path.parent)
    return [FoundRun(make_name(one), one.name, one) for one in below if is_run(one)]


def _list_directories(path: pathlib.Path) -> list[pathlib.Path]:
    try:
        with os.scandir(path) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
                and not entry.name.startswith(".")
                and entry.name not in PARTS_OF_RUNS
            )
    except OSError:
        return []  # It is gone, or not ours.
    return [path / name for name in names]
