"""The files of a SavedModel, so that only they are deleted and not what else lies beside them."""

import os
import re
from typing import Final

import tensorflow as tf

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
    if not tf.io.gfile.isdir(path):
        return
    names = {name.rstrip("/") for name in tf.io.gfile.listdir(path)}
    if is_known or _FILE in names:
        for name in names.intersection(_DIRECTORIES):
            tf.io.gfile.rmtree(os.path.join(path, name))
        if _VARIABLES in names:
            _delete_variables(os.path.join(path, _VARIABLES))
        # Its main file last: as long as it is there, this can be called again.
        for name in (one for one in (*_OTHER_FILES, _FILE) if one in names):
            tf.io.gfile.remove(os.path.join(path, name))
    remove_if_empty(path)


def _delete_variables(directory: str) -> None:
    for name in filter(_VARIABLES_FILE.fullmatch, tf.io.gfile.listdir(directory)):
        tf.io.gfile.remove(os.path.join(directory, name))
    remove_if_empty(directory)


def remove_if_empty(directory: str) -> None:
    """Removes a directory that is there and empty."""
    if tf.io.gfile.isdir(directory) and not tf.io.gfile.listdir(directory):
        tf.io.gfile.rmtree(directory)


def move(source: str, target: str) -> None:
    """Moves what is in one directory to another, which may hold other files, and removes it."""
    if not tf.io.gfile.exists(target):
        tf.io.gfile.rename(source, target)
        return
    for name in (one.rstrip("/") for one in tf.io.gfile.listdir(source)):
        path, new_path = os.path.join(source, name), os.path.join(target, name)
        if tf.io.gfile.isdir(path):
            move(path, new_path)
        else:
            tf.io.gfile.rename(path, new_path)
    remove_if_empty(source)
