"""Per-rank parts of a checkpoint.

Those of the first lie beside what all have in common, those of process 2 in `ranks/2`. All parts
come to the first process, which writes them: no other needs to reach the storage to save.
"""

import pathlib
import shutil
from typing import Final

from quintain.files import changing_files
from quintain.records.rows import trial
from quintain.trials import base_trial, distributed_context, random_state

RANDOM_FILE: Final = "random_state.json"

_DIRECTORY: Final = "ranks"


def save(controller: base_trial.TrialController, directory: pathlib.Path) -> None:
    """Lets a trial write its state, and takes in what the other processes have."""
    controller.save(str(directory))
    random_state.save(directory / RANDOM_FILE)
    distributed = controller.context.distributed
    if distributed.size == 1:
        return
    for rank, part in enumerate(distributed.allgather({})):
        for name, content in part.items():
            path = directory / _DIRECTORY / str(rank) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def send(controller: base_trial.TrialController, spec: trial.TrialSpec) -> int:
    """Gives the part of this process, which is not the first, to that one.

    The trial writes all of its state, for that takes collectives, and most of it is dropped.

    Returns:
        Bytes that were written.
    """
    directory = pathlib.Path(spec.scratch_dir, "part")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        controller.save(str(directory))
        random_state.save(directory / RANDOM_FILE)
        part = _read(directory, [RANDOM_FILE, *controller.part_files])
        num_bytes = changing_files.measure_all(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    controller.context.distributed.allgather(part)
    return num_bytes


def _read(directory: pathlib.Path, patterns: list[str]) -> dict[str, bytes]:
    found = sorted({path for pattern in patterns for path in directory.glob(pattern)})
    return {path.name: path.read_bytes() for path in found}


def find(
    directory: str | pathlib.Path, distributed: distributed_context.DistributedContext
) -> pathlib.Path:
    """Returns where the part of this process is.

    A checkpoint of fewer processes has none for the further ones: they take that of the first.
    """
    own = pathlib.Path(directory, _DIRECTORY, str(distributed.rank))
    return own if own.is_dir() else pathlib.Path(directory)
