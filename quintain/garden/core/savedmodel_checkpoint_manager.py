"""Checkpoint manager that exports SavedModels beside its checkpoints."""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.checkpoints import checkpoints
from quintain.files import file_io, file_paths, literal_paths, saved_model_files, whole_files

SAVED_MODULES_PATH_SUFFIX: Final = "saved_modules"


def make_saved_modules_directory_name(checkpoint_name: str) -> str:
    """Returns where the SavedModels of a checkpoint are.

    Example:
        >>> make_saved_modules_directory_name("runs/a/ckpt-10")
        'runs/a/ckpt-10_saved_modules'
    """
    return f"{checkpoint_name}_{SAVED_MODULES_PATH_SUFFIX}"


class SavedModelCheckpointManager(tf.train.CheckpointManager):
    """Exports modules as SavedModels whenever it saves a checkpoint.

    The SavedModels of the checkpoint `ckpt-10` are `ckpt-10_saved_modules/NAME`. They appear all at
    once, when they are complete, and go when their checkpoint goes. A module may have an attribute
    `saved_model_signatures`, which then are its signatures; a Keras model without them is exported
    with its call as the function `serve`.

    Another process can wait for them with `savedmodels_iterator`.
    """

    # TensorFlow's own.
    _latest_checkpoint: str | None
    _last_preserved_timestamp: float

    def __init__(
        self,
        checkpoint: tf.train.Checkpoint,
        directory: str,
        max_to_keep: int | None,
        modules_to_export: Mapping[str, Any] | None = None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: tf.Variable | None = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
    ) -> None:
        """Stores what to save and to export.

        Args:
            checkpoint: The objects to save.
            directory: Directory of the files.
            max_to_keep: Newest checkpoints to keep; None keeps all.
            modules_to_export: What to export, by name: `tf.Module`s and Keras models. None or empty
                exports nothing.
            keep_checkpoint_every_n_hours: Hours after which a checkpoint is kept for good.
            checkpoint_name: Start of the file names.
            step_counter: Step that `checkpoint_interval` is counted by.
            checkpoint_interval: Steps between two saves. None saves at every call.
            init_fn: Called by `restore_or_initialize` when there is no checkpoint.
        """
        super().__init__(
            checkpoint=checkpoint,
            directory=directory,
            max_to_keep=max_to_keep,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            checkpoint_name=checkpoint_name,
            step_counter=step_counter,
            checkpoint_interval=checkpoint_interval,
            init_fn=init_fn,
        )
        self._modules_to_export = modules_to_export
        self._savedmodels = self.get_existing_savedmodels()

    @property
    def modules_to_export(self) -> Mapping[str, Any] | None:
        """The exported modules, by name."""
        return self._modules_to_export

    @property
    def savedmodels(self) -> list[str]:
        """Directories of the exports of this manager's checkpoints, from oldest to newest."""
        return list(self._savedmodels)

    @property
    def latest_savedmodel(self) -> str | None:
        """Directory of the newest export, or None."""
        return self._savedmodels[-1] if self._savedmodels else None

    @override
    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: tf.train.CheckpointOptions | None = None,
    ) -> str | None:
        """Saves a checkpoint and exports the modules, or does nothing if it is not time yet.

        Args:
            checkpoint_number: Number in the file name. Counts the saves by default.
            check_interval: Whether to save only when `checkpoint_interval` steps have passed.
            options: How TensorFlow writes the checkpoint.

        Returns:
            Prefix of the checkpoint, or None if nothing was saved.
        """
        path: str | None = super().save(
            checkpoint_number=checkpoint_number, check_interval=check_interval, options=options
        )
        if path is None or not self._modules_to_export:
            return path
        self._export(make_saved_modules_directory_name(path))
        kept = {make_saved_modules_directory_name(name) for name in self.checkpoints}
        self._savedmodels = [name for name in self.get_existing_savedmodels() if name in kept]
        return path

    @override
    def restore_or_initialize(self) -> str | None:
        """Restores the newest checkpoint, or calls `init_fn` if there is none."""
        path = self._latest_checkpoint
        try:
            if path is not None:
                self._latest_checkpoint = literal_paths.checkpoint(path)
            super().restore_or_initialize()
        finally:
            self._latest_checkpoint = path
        return path

    @override
    def _sweep(self) -> None:
        """Does what TensorFlow's own does (2.21), which deletes whatever matches a pattern."""
        hours = self._keep_checkpoint_every_n_hours
        while self._max_to_keep and len(self._maybe_delete) > self._max_to_keep:
            path, timestamp = self._maybe_delete.popitem(last=False)
            if hours and timestamp - hours * 3600 >= self._last_preserved_timestamp:
                self._last_preserved_timestamp = timestamp
                continue
            checkpoints.delete_checkpoint(path)
            _delete_exports(make_saved_modules_directory_name(path))

    def get_existing_savedmodels(self) -> list[str]:
        """Returns the directories of all exports that are there, by rising number."""
        directory, name = file_paths.split(self._checkpoint_prefix)
        if not file_io.isdir(directory or os.curdir):
            return []
        pattern = re.compile(re.escape(name) + rf"-(\d+)_{SAVED_MODULES_PATH_SUFFIX}")
        matches = filter(None, map(pattern.fullmatch, file_io.listdir(directory)))
        found = {file_paths.join(directory, match.string): int(match[1]) for match in matches}
        return sorted(found, key=found.__getitem__)

    def get_savedmodel_number_from_path(self, savedmodel_path: str) -> int | None:
        """Returns the number in the name of an export, or None if it is none."""
        match = re.search(rf"-(\d+)_{SAVED_MODULES_PATH_SUFFIX}/?$", savedmodel_path)
        return int(match[1]) if match else None

    def savedmodels_iterator(
        self,
        min_interval_secs: float = 0,
        timeout: float | None = None,
        timeout_fn: Callable[[], bool] | None = None,
    ) -> Iterator[str]:
        """Yields the directory of every export, as they appear, by rising number.

        Args:
            min_interval_secs: Seconds from one export to the next at least.
            timeout: Seconds to wait for another export. None waits without limit.
            timeout_fn: Called at every time-out; True ends the iteration. None ends it at the first
                time-out.

        Yields:
            Directories of exports.
        """
        last_path: str | None = None
        while True:
            path = self.wait_for_new_savedmodel(last_path, timeout=timeout)
            if path is None:
                if timeout_fn is None or timeout_fn():
                    return
                continue
            start_secs = time.monotonic()
            last_path = path
            yield path
            left_secs = start_secs + min_interval_secs - time.monotonic()
            if left_secs > 0:
                time.sleep(left_secs)

    def wait_for_new_savedmodel(
        self,
        last_savedmodel: str | None = None,
        seconds_to_sleep: float = 1.0,
        timeout: float | None = None,
    ) -> str | None:
        """Waits for an export with a larger number than the last one.

        Args:
            last_savedmodel: The last export; None waits for any.
            seconds_to_sleep: Seconds between two looks.
            timeout: Seconds to wait. None waits without limit.

        Returns:
            The export with the next larger number, or None after the time-out.
        """
        last = None
        if last_savedmodel is not None:
            last = self.get_savedmodel_number_from_path(last_savedmodel)
        last_number = -1 if last is None else last
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            for path in self.get_existing_savedmodels():
                number = self.get_savedmodel_number_from_path(path)
                if number is not None and number > last_number:
                    return path
            if deadline is not None and time.monotonic() + seconds_to_sleep > deadline:
                return None
            time.sleep(seconds_to_sleep)

    def _export(self, directory: str) -> None:
        """Exports all modules, and moves them to their place together."""
        scratch = directory + whole_files.SCRATCH_SUFFIX
        if file_io.exists(scratch):
            file_io.rmtree(scratch)
        for name, module in (self._modules_to_export or {}).items():
            path = file_paths.join(scratch, name)
            signatures = getattr(module, "saved_model_signatures", None)
            if isinstance(module, keras.Model) and signatures is None:
                module.export(path, verbose=False)  # with a function `serve`
            else:
                tf.saved_model.save(module, path, signatures=signatures)
        if not file_io.exists(directory):
            file_io.move_directory(scratch, directory)
            return
        for name in self._modules_to_export or {}:
            saved_model_files.delete(file_paths.join(directory, name))
            saved_model_files.move(file_paths.join(scratch, name), file_paths.join(directory, name))
        file_io.rmtree(scratch)


def _delete_exports(directory: str) -> None:
    """Deletes the SavedModels of one checkpoint."""
    if not file_io.isdir(directory):
        return
    for name in file_io.listdir(directory):
        saved_model_files.delete(file_paths.join(directory, name))
    saved_model_files.remove_if_empty(directory)
