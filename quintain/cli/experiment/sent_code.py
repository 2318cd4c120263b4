"""The code of an experiment as a master takes it: a directory, or what was sent of it."""

import pathlib
from typing import TYPE_CHECKING, Any

from quintain.client.home import home as home_lib
from quintain.client.home import logins
from quintain.records.config import experiment_sections

if TYPE_CHECKING:
    from quintain.cli.experiment import foreground
    from quintain.client import code_calls, master_client


def find(
    commands: "foreground.Commands",
    directory: pathlib.Path | None,
    limits: experiment_sections.CodeConfig,
) -> Any:
    """Returns the directory of the code, or what was sent of it, for `create_experiment`.

    Args:
        commands: The master.
        directory: The user's directory; None if there is none.
        limits: How much it may be.
    """
    if directory is None or logins.find(home_lib.find_home().path) is None:
        return directory
    from quintain.client import master_client

    assert isinstance(commands, master_client.MasterClient), "Who is elsewhere is asked over HTTP."
    return _send(commands, directory, limits)


def _send(
    client: "master_client.MasterClient",
    directory: pathlib.Path,
    limits: experiment_sections.CodeConfig,
) -> "code_calls.SentCode":
    """Sends what a master on this machine would copy.

    Args:
        client: Talks to the master.
        directory: The user's directory.
        limits: How much it may be.

    Raises:
        ConfigError: If it can't be copied.
    """
    # Only who asks a master elsewhere needs these.
    import tarfile
    import tempfile

    from quintain.master.transfer import model_files

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
