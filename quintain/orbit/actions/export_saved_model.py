"""Export of a SavedModel after each loop, with retention of the newest."""

import os
import posixpath
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.files import file_io, file_paths, saved_model_files


def safe_normpath(path: file_paths.Path) -> str:
    """Returns the shortest spelling of a path, or of the part of a URL that follows its scheme.

    Example:
        >>> safe_normpath("gs://bucket//exports/"), safe_normpath("exports//a")
        ('gs://bucket/exports', 'exports/a')
    """
    scheme, slashes, rest = os.fspath(path).rpartition("://")
    return scheme + slashes + posixpath.normpath(rest)


class ExportFileManager:
    """Names exports `{base_name}-{id}` and deletes the oldest ones.

    Override `next_name` and `clean_up` for another scheme.
    """

    def __init__(
        self,
        base_name: str,
        max_to_keep: int = 5,
        next_id_fn: Callable[[], int] | None = None,
        subdirectory: str | None = None,
    ) -> None:
        """Stores the scheme; nothing is read or deleted yet.

        Args:
            base_name: Path of the exports without `-{id}`.
            max_to_keep: How many to keep, those with the greatest ids. 0 and less keep all.
            next_id_fn: Returns the id of the next export, for example the global step. None counts
                on from the exports that exist.
            subdirectory: Directory inside of `{base_name}-{id}` to export to; it alone is deleted.
        """
        self._base_name = safe_normpath(base_name)
        self._max_to_keep = max_to_keep
        self._next_id_fn = next_id_fn or self._count
        self._next_count: int | None = None
        self._subdirectory = subdirectory or ""

    @property
    def managed_files(self) -> list[str]:
        """Paths of the exports that exist, with the subdirectory, by increasing id."""
        ids = self._ids_of_files()
        paths = (self._place(path) for path in sorted(ids, key=ids.__getitem__))
        return list(filter(file_io.exists, paths))

    def clean_up(self) -> None:
        """Deletes all but the last `max_to_keep` exports; what else is beside them stays."""
        if self._max_to_keep <= 0:
            return
        for path in self.managed_files[: -self._max_to_keep]:
            if file_io.isdir(path):
                saved_model_files.delete(path)
            else:
                file_io.remove(path)

    def next_name(self) -> str:
        """Returns the path to export to; a new one at every call."""
        return self._place(f"{self._base_name}-{self._next_id_fn()}")

    def _place(self, path: str) -> str:
        return safe_normpath(file_paths.join(path, self._subdirectory))

    def _ids_of_files(self) -> dict[str, int]:
        directory, name = file_paths.split(self._base_name)
        if not file_io.isdir(directory or os.curdir):
            return {}
        pattern = re.compile(re.escape(name) + r"-(\d+)")
        matches = filter(None, map(pattern.fullmatch, file_io.listdir(directory)))
        return {file_paths.join(directory, match.string): int(match[1]) for match in matches}

    def _count(self) -> int:
        if self._next_count is None:
            self._next_count = max(self._ids_of_files().values(), default=-1) + 1
        self._next_count += 1
        return self._next_count - 1


class ExportSavedModel:
    """Exports a model as a SavedModel, whatever the output is."""

    def __init__(
        self,
        model: tf.Module,
        file_manager: ExportFileManager,
        signatures: Any,
        options: tf.saved_model.SaveOptions | None = None,
    ) -> None:
        """Stores what to export."""
        self.model = model
        self.file_manager = file_manager
        self.signatures = signatures
        self.options = options

    def __call__(self, output: Any) -> None:
        """Exports the model and deletes old exports.

        Raises:
            ConfigError: If TensorFlow can't write where the exports are to go.
        """
        del output
        name = self.file_manager.next_name()
        file_io.check_writable(name, "base_name")
        tf.saved_model.save(self.model, name, self.signatures, self.options)
        self.file_manager.clean_up()
