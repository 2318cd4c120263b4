"""Destinations of downloaded files, confined to the directory that the user named."""

import pathlib

from quintain import errors


def make_target(directory: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a file to write below a directory, and makes the directories to it.

    Args:
        directory: What the user named.
        name: Path relative to it, as somebody else gave it.

    Raises:
        DataError: If the path leads out of the directory, by itself or by a link that is there.

    Example:
        >>> make_target(pathlib.Path("out"), "../.bashrc")
        Traceback (most recent call last):
        ...
        quintain.errors.DataError: file '../.bashrc': leads out of out; nothing is written there.
    """
    relative = pathlib.PurePosixPath(name)
    target = directory / relative
    is_below = bool(relative.parts) and not relative.is_absolute() and ".." not in relative.parts
    # Links that are there may lead anywhere, and making directories follows them.
    if not is_below or not target.resolve().is_relative_to(directory.resolve()):
        raise errors.DataError(
            f"file {name!r}: leads out of {directory}; nothing is written there."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
