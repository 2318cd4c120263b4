"""The code of an experiment as a master takes it: a directory, or what was sent of it."""

import pathlib
from typing import TYPE_CHECKING, Any

from quintain.client.home import home as home_lib
from quintain.client.home import logins
from quintain.records.config import experiment_sections

if TYPE_CHECKING:
    from quintain.cli.experiment import foreground


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
    from quintain.cli.experiment import remote_code
    from quintain.client import master_client

    assert isinstance(commands, master_client.MasterClient), "Who is elsewhere is asked over HTTP."
    return remote_code.send(commands, directory, limits)
