"""The code of an experiment as a master takes it: a directory, or an archive that was sent."""

import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

from quintain.client.home import home as home_lib
from quintain.client.home import logins
from quintain.records.config import experiment_sections

if TYPE_CHECKING:
    from quintain.client import master_client


def find(
    commands: "master_client.MasterClient",
    directory: pathlib.Path | None,
    limits: experiment_sections.CodeConfig,
) -> dict[str, Any]:
    """Returns the arguments of `create_experiment` that say where the code is.

    It is sent to a master on another machine, which can't copy the directory itself.

    Args:
        commands: The master.
        directory: The user's directory; None if there is none.
        limits: How much it may be.

    Raises:
        ConfigError: If it can't be copied.
    """
    if directory is None or logins.find(home_lib.find_home().path) is None:
        return {"model_dir": directory}
    # Commands that send nothing need not wait for these.
    import tarfile

    from quintain.master.transfer import model_files

    with tempfile.TemporaryDirectory(prefix="quintain-code-") as scratch:
        copy = pathlib.Path(scratch) / model_files.NAME
        packed = pathlib.Path(scratch) / f"{model_files.NAME}.tar"
        listing = model_files.copy_model_dir(directory, copy, limits)
        with tarfile.open(packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in (*listing.files, *listing.links):
                if (copy / name).exists() or (copy / name).is_symlink():
                    archive.add(copy / name, name, recursive=False)
        return {"model_dir": None, "upload": commands.send_code(packed)}
