"""Packs a directory of code for a master on another machine."""

import pathlib
import tarfile
import tempfile
from typing import TYPE_CHECKING

from quintain.client import code_calls
from quintain.master.transfer import model_files
from quintain.records.config import experiment_sections

if TYPE_CHECKING:
    from quintain.client import master_client


def send(
    client: "master_client.MasterClient",
    directory: pathlib.Path,
    limits: experiment_sections.CodeConfig,
) -> code_calls.SentCode:
    """Sends what a master on this machine would copy.

    Args:
        client: Talks to the master.
        directory: The user's directory.
        limits: How much it may be.

    Raises:
        ConfigError: If it can't be copied.
    """
    with (
        tempfile.TemporaryFile(prefix="quintain-code-") as file,
        tempfile.TemporaryDirectory(prefix="quintain-code-") as scratch,
    ):
        copy = pathlib.Path(scratch) / model_files.NAME
        listing = model_files.copy_model_dir(directory, copy, limits)
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in (*listing.files, *listing.links):
                if (copy / name).exists() or (copy / name).is_symlink():
                    archive.add(copy / name, name, recursive=False)
        return client.code.send(file)
