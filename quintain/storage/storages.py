"""Which storage an experiment's config names, and which one an address means."""

import pathlib
from collections.abc import Mapping
from typing import Any, Final

from quintain.records import experiment_spec
from quintain.storage import checkpoint_storage, directory_storage

_NOBODY: Final = checkpoint_storage.Writer()


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
    address = experiment_spec.find_checkpoint_directory(content, str(own_directory))
    return open_address(address, writer=writer, scratch=scratch)


def open_address(
    address: str,
    *,
    writer: checkpoint_storage.Writer = _NOBODY,
    scratch: pathlib.Path | None = None,
) -> checkpoint_storage.CheckpointStorage:
    """Returns the storage of an address: a directory."""
    return directory_storage.DirectoryStorage(pathlib.Path(address), writer)
