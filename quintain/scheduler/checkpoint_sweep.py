"""Deletes what killed processes left in the directory of checkpoints.

A process that is killed while it saves leaves a directory that is not complete; one that is killed
right after, a complete one that nobody knows of. Only the home directory's own checkpoints are
swept: other directories may belong to other homes as well.
"""

import json
import logging
import pathlib
import re
import shutil
from collections.abc import Collection
from typing import Final

from quintain.records import checkpoint
from quintain.scheduler import core as core_lib

_TEMPORARY: Final = re.compile(r"\.(\d+)-.*\.tmp")
_METADATA_FILE: Final = "metadata.json"

logger = logging.getLogger(__name__)


def sweep(core: core_lib.Core) -> None:
    """Deletes the directories of checkpoints that are not in the store.

    Those of trials that have a process are left alone, as it may be about to report them.

    Args:
        core: The master's state; its lock is held.
    """
    directory = core.home / "checkpoints"
    if not directory.is_dir():
        return
    with core.store.reading() as session:
        known = {
            record.uuid
            for record in session.list_checkpoints(states=[checkpoint.CheckpointState.COMPLETED])
        }
    for path in find_orphans(directory, known, set(core.runs)):
        logger.info("Deleting %s, which a killed process left.", path)
        shutil.rmtree(path, ignore_errors=True)


def find_orphans(
    directory: pathlib.Path, known: Collection[str], live_trials: Collection[int]
) -> list[pathlib.Path]:
    """Returns directories that belong to no checkpoint and to no trial that has a process.

    Args:
        directory: Directory of checkpoints.
        known: UUIDs of the checkpoints that there are.
        live_trials: Trials that have a process.
    """
    orphans = []
    for path in sorted(directory.iterdir()):
        if path.name in known:
            continue
        trial_id = _find_trial(path)
        if trial_id is not None and trial_id not in live_trials:
            orphans.append(path)
    return orphans


def _find_trial(path: pathlib.Path) -> int | None:
    """Returns the trial that wrote a directory, or None if it is something else."""
    temporary = _TEMPORARY.fullmatch(path.name)
    if temporary is not None:
        return int(temporary[1])
    try:
        return int(json.loads((path / _METADATA_FILE).read_text(encoding="utf-8"))["trial_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
