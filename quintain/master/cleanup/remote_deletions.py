"""Deletion of checkpoints in remote storages, as far as this home has written them."""

import re
from typing import Final

from quintain import errors
from quintain.records import checkpoint_manifest
from quintain.records.rows import deletion
from quintain.storage import checkpoint_storage, storages

UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNFINISHED: Final = re.compile(r"\.[^/]+\.tmp")
_Kind = deletion.DeletionKind


def is_remote(noted: deletion.Deletion) -> bool:
    """Returns whether what was noted is no directory of this machine."""
    return storages.is_remote(noted.root)


def locate(noted: deletion.Deletion) -> str:
    """Returns where it is, for people."""
    return storages.open_address(noted.root).locate(noted.name)


def delete(noted: deletion.Deletion, home_id: str) -> str:
    """Deletes what was noted; returns why it is kept, or an empty text if it is gone.

    Raises:
        CheckpointError: If the storage does not answer, or does not allow it.
    """
    storage = storages.open_address(noted.root)
    if noted.kind not in (_Kind.CHECKPOINT, _Kind.ORPHAN, _Kind.UNFINISHED):
        return "only checkpoints are kept there."
    if _UNFINISHED.fullmatch(noted.name):
        storage.delete_unfinished(noted.name, home_id)
        return ""
    if not UUID.fullmatch(noted.name):
        return "this is not the name of a checkpoint."
    objection = _find_objection(storage, noted, home_id)
    if not objection:
        storage.delete(noted.name)
    return objection


def _find_objection(
    storage: checkpoint_storage.CheckpointStorage, noted: deletion.Deletion, home_id: str
) -> str:
    found = storage.find_files(noted.name)
    if not found:
        return ""
    if checkpoint_manifest.FILE_NAME not in found:
        return "it has no manifest."
    try:
        manifest = storage.read_manifest(noted.name)
    except errors.CheckpointError as error:
        if isinstance(error.__cause__, ValueError | TypeError):
            return str(error)
        raise
    if not home_id or manifest.home_id != home_id:
        return f"it is of another home ({manifest.home_id or 'none is named'})."
    if noted.kind is _Kind.CHECKPOINT and manifest.experiment_id != noted.experiment_id:
        return f"it is of experiment {manifest.experiment_id}, not of {noted.experiment_id}."
    return ""
