"""Factory of checkpoint storages, from an experiment's config or from an address."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, Final

from quintain.records.config import checkpoint_storage_config
from quintain.storage import checkpoint_storage, directory_storage

_PATIENT_SECS: Final = 1800.0
"""Seconds that a trial waits for a storage: enough to repair it, as computed work is at stake."""

_ANSWER_SECS: Final = checkpoint_storage_config.ANSWER_SECS

_NOBODY: Final = checkpoint_storage.Writer()
_IMPATIENT_SECS: Final = 10.0


def build(
    content: Mapping[str, Any],
    own_directory: pathlib.Path,
    *,
    writer: checkpoint_storage.Writer = _NOBODY,
    scratch: pathlib.Path | None = None,
) -> checkpoint_storage.CheckpointStorage:
    """Returns where an experiment keeps its checkpoints; nothing is read or written.

    Args:
        content: The experiment's config as the store keeps it, though it may be refused today.
        own_directory: The directory of checkpoints of experiments that name none.
        writer: Who writes there.
        scratch: Where files are staged that go elsewhere; None for the directory of temporary
            files.
    """
    address = checkpoint_storage_config.find_address(content, str(own_directory))
    retry_secs, answer_secs = checkpoint_storage_config.find_timeouts(content)
    return open_address(
        address,
        writer=writer,
        scratch=scratch,
        patience_secs=(retry_secs or _PATIENT_SECS) if writer.launch_id else _IMPATIENT_SECS,
        answer_secs=answer_secs or _ANSWER_SECS,
    )


def open_address(
    address: str,
    *,
    writer: checkpoint_storage.Writer = _NOBODY,
    scratch: pathlib.Path | None = None,
    patience_secs: float = _IMPATIENT_SECS,
    answer_secs: float = _IMPATIENT_SECS,
) -> checkpoint_storage.CheckpointStorage:
    """Returns the storage of an address; nothing is read or written.

    Args:
        address: A directory, or JSON (`CheckpointStorageConfig.address`).
        writer: Who writes there.
        scratch: Where files are staged that go elsewhere; None for the directory of temporary
            files.
        patience_secs: How long calls of a storage of another machine that fail are repeated.
        answer_secs: How long one may take, beside what a file takes.
    """
    if not is_remote(address):
        return directory_storage.DirectoryStorage(pathlib.Path(address), writer)
    # Homes of one machine need nothing of it.
    from quintain.storage import fsspec_storage  # noqa: PLC0415

    found = json.loads(address)
    return fsspec_storage.FsspecStorage(
        found["url"],
        found["options"],
        writer,
        scratch=scratch,
        patience_secs=patience_secs,
        answer_secs=answer_secs,
    )


def is_remote(address: str) -> bool:
    """Returns whether an address is not a directory."""
    return address.startswith("{")
