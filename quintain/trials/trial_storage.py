"""Where the process of a trial writes checkpoints, and where it finds the one to go on from."""

import functools
import pathlib

from quintain.records import trial
from quintain.storage import checkpoint_storage, storages


def open_own(spec: trial.TrialSpec) -> checkpoint_storage.TrialStorage:
    """Returns the storage for new checkpoints of a trial."""
    return _open(spec, spec.checkpoint_dir)


def open_latest(spec: trial.TrialSpec) -> checkpoint_storage.TrialStorage:
    """Returns the storage of the checkpoint to go on from, which may be another experiment's."""
    place = (spec.latest_checkpoint or "").rpartition("/")[0]
    return _open(spec, spec.latest_storage or place)


def _open(spec: trial.TrialSpec, address: str) -> checkpoint_storage.TrialStorage:
    writer = checkpoint_storage.Writer(spec.home_id, spec.experiment_id, spec.launch_id)
    return _open_once(address, writer, pathlib.Path(spec.scratch_dir))


@functools.lru_cache(maxsize=4)
def _open_once(
    address: str, writer: checkpoint_storage.Writer, scratch: pathlib.Path
) -> checkpoint_storage.TrialStorage:
    return storages.open_address(
        address, writer=writer, scratch=scratch, patience_secs=storages.PATIENT_SECS
    )
