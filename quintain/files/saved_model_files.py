"""The files of a SavedModel, so that only they are deleted and not what else lies beside them."""

import re
from typing import Final

from quintain.files import file_io, file_paths

_FILE: Final = "saved_model.pb"
_OTHER_FILES: Final = ("fingerprint.pb", "keras_metadata.pb")
_DIRECTORIES: Final = ("assets", "assets.extra", "debug")
_VARIABLES: Final = "variables"
_VARIABLES_FILE: Final = re.compile(r"variables\.(index|data-\d{5}-of-\d{5})")


def delete(path: str, *, is_known: bool = False) -> None:
    """Deletes the SavedModel in a directory, and the directory if nothing else is in it.

    A directory without a SavedModel stays as it is, unless it is empty.

    Args:
        path: The directory.
        is_known: Whether it is one of ours for sure, even if its main file is missing.
    """
    if not file_io.isdir(path):
        return
    names = set(file_io.listdir(path))
    if is_known or _FILE in names:
        for name in names.intersection(_DIRECTORIES):
            file_io.rmtree(file_paths.join(path, name))
        if _VARIABLES in names:
            _delete_variables(file_paths.join(path, _VARIABLES))
        # Its main file last: as long as it is there, this can be called again.
        for name in (one for one in (*_OTHER_FILES, _FILE) if one in names):
            file_io.remove(file_paths.join(path, name))
    remove_if_empty(path)


def _delete_variables(directory: str) -> None:
    for name in filter(_VARIABLES_FILE.fullmatch, file_io.listdir(directory)):
        file_io.remove(file_paths.join(directory, name))
    remove_if_empty(directory)


def remove_if_empty(directory: str) -> None:
    """Removes a directory that is there and empty."""
    if file_io.isdir(directory) and not file_io.listdir(directory):
        file_io.rmtree(directory)


def move(source: str, target: str) -> None:
    """Moves what is in one directory to another, which may hold other files, and removes it."""
    if not file_io.exists(target):
        file_io.move_directory(source, target)
        return
    for name in file_io.listdir(source):
        path, new_path = file_paths.join(source, name), file_paths.join(target, name)
        if file_io.isdir(path):
            move(path, new_path)
        else:
            file_io.rename(path, new_path)
    remove_if_empty(source)
