"""Writes, keeps, checks and restores the checkpoints of one run.

A checkpoint is complete or absent: it is written beside its place and moved there, index last. The
values are captured at once (TensorFlow copies a variable only when it is next written to); the file
is written in the background while training goes on.
"""

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import tensorflow as tf
from tensorflow.python.checkpoint import functional_saver

from quintain import errors
from quintain.checkpoints import (
    auto_interval,
    checkpoint_fit,
    receipts,
    saved_graph,
    task_state,
)
from quintain.files import disk_errors, file_io, file_paths, literal_paths, whole_files
from quintain.orbit import checkpoint_watch

if TYPE_CHECKING:
    from quintain.checkpoints import memory_checkpoints

_STATE_FILE: Final = "checkpoint"
_OWN_FILE: Final = re.compile(
    rf"ckpt-\d+\.(index|data-\d{{5}}-of-\d{{5}}|receipt\.json)|{_STATE_FILE}|{receipts.CHAIN_FILE}"
)
_WRITE_ERRORS: Final = (*whole_files.ERRORS, errors.OutputError)

logger = logging.getLogger(__name__)


class CheckpointManager:
    """Keeps the newest checkpoints of a run in one directory.

    It offers what `tf.train.CheckpointManager` offers, and in addition writes in the background,
    falls back to an earlier checkpoint when the newest is damaged, and refuses one that does not
    fit.

    Example:
        >>> import tempfile
        >>> step = tf.Variable(7, dtype=tf.int64)
        >>> directory = tempfile.mkdtemp()
        >>> manager = CheckpointManager(
        ...     tf.train.Checkpoint(step=step), directory, step_counter=step
        ... )
        >>> file_paths.basename(manager.save())
        'ckpt-7'
        >>> manager.sync()
        >>> _ = step.assign(0)
        >>> file_paths.basename(manager.restore_or_initialize())
        'ckpt-7'
        >>> int(step)
        7
    """

    def __init__(
        self,
        checkpoint: tf.train.Checkpoint,
        directory: str,
        max_to_keep: int | None = 5,
        *,
        checkpoint_name: str = "ckpt",
        step_counter: tf.Variable | None = None,
        checkpoint_interval: int | auto_interval.AutoInterval | None = None,
        init_fn: Callable[[], Any] | None = None,
        enable_async: bool = True,
    ) -> None:
        """Stores what to save and where.

        Args:
            checkpoint: The objects to save.
            directory: Directory of the files; created by the first save.
            max_to_keep: Newest checkpoints to keep; None or 0 keeps all.
            checkpoint_name: Start of the file names, followed by `-` and the step.
            step_counter: Step that numbers the checkpoints.
            checkpoint_interval: Steps between two saves by `save(check_interval=True)`. 0 saves
                nothing that way; None saves at every call.
            init_fn: Called by `restore_or_initialize` when there is no checkpoint.
            enable_async: Whether files are written in the background.
        """
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._max_to_keep = max_to_keep or None
        self._name = checkpoint_name
        self._step_counter = step_counter
        self._interval = checkpoint_interval
        self._init_fn = init_fn
        self._enable_async = enable_async
        self._receipts: receipts.ReceiptWriter | None = None
        self._memory: memory_checkpoints.MemoryCheckpoints | None = None
        self._last_step: int | None = None
        self._writer: threading.Thread | None = None
        self._write_error: errors.CheckpointError | None = None
        self._num_saves = 0

    @property
    def directory(self) -> str:
        """Directory of the checkpoint files."""
        return self._directory

    @property
    def checkpoint(self) -> tf.train.Checkpoint:
        """The objects that are saved."""
        return self._checkpoint

    @property
    def checkpoint_interval(self) -> int | None:
        """Steps between two saves at intervals; 0 or None if there are none."""
        if isinstance(self._interval, auto_interval.AutoInterval):
            return self._interval.find_steps(self._step())
        return self._interval

    @property
    def checkpoints(self) -> list[str]:
        """Prefixes of all complete checkpoints, oldest first."""
        return list_checkpoints(self._directory, self._name)

    @property
    def latest_checkpoint(self) -> str | None:
        """Prefix of the newest complete checkpoint, or None."""
        return self.checkpoints[-1] if self.checkpoints else None

    def write_receipts(self, writer: receipts.ReceiptWriter) -> None:
        """Lets every checkpoint from now on have a receipt."""
        self._receipts = writer

    def prefer_memory(self, memory: "memory_checkpoints.MemoryCheckpoints") -> None:
        """Lets `restore_or_initialize` restore from memory, once, if that is not older."""
        self._memory = memory

    @property
    def last_step(self) -> int | None:
        """Step of the newest checkpoint that was saved or restored; None without one."""
        return self._last_step

    def save(
        self,
        checkpoint_number: int | None = None,
        check_interval: bool = True,
        options: tf.train.CheckpointOptions | None = None,
    ) -> str | None:
        """Saves a checkpoint, or does nothing if it is not time yet.

        Args:
            checkpoint_number: Number in the file name. Defaults to the step.
            check_interval: Whether to save only when `checkpoint_interval` steps have passed since
                the last checkpoint.
            options: How TensorFlow writes the file; `enable_async` is this manager's own argument.

        Returns:
            Prefix of the checkpoint, or None if nothing was saved.

        Raises:
            CheckpointError: If this or the previous checkpoint could not be written. Earlier
                checkpoints are not touched.
        """
        step = self._step()
        if check_interval and not self._is_due(step):
            return None
        self.sync()
        number = step if checkpoint_number is None else int(checkpoint_number)
        path = file_paths.join(self._directory, f"{self._name}-{number}")
        if self._is_saved(path, step):
            return path
        start = time.monotonic()
        snapshots = [_capture(self._checkpoint)]
        self._last_step = step
        self._start_writing(lambda: self._write(snapshots, path, options, step, start))
        return path

    def find_written(self, step: int) -> str | None:
        """Returns the prefix of the newest checkpoint if this manager wrote it at `step`.

        Raises:
            CheckpointError: If it could not be written.
        """
        self.sync()
        path = file_paths.join(self._directory, f"{self._name}-{step}")
        return path if self._num_saves and self._is_saved(path, step) else None

    def link(self, source: str, number: int) -> bool:
        """Saves a checkpoint by hard links to the files of another; returns whether it could."""
        path = file_paths.join(self._directory, f"{self._name}-{number}")
        try:
            with _temporary_prefix(path) as prefix:
                for file in [*list_data_files(source), f"{source}.index"]:
                    os.link(file, prefix + file[len(source) :])
                _publish(prefix, path)
            self._record_and_prune()
        except _WRITE_ERRORS:
            return False
        return True

    def sync(self) -> None:
        """Waits for the background writer.

        Raises:
            CheckpointError: If the file could not be written.
        """
        self.join()
        if self._write_error is not None:
            error, self._write_error = self._write_error, None
            raise error

    def join(self) -> None:
        """Waits for the background writer of this process; `sync` raises what it met."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def restore_or_initialize(self) -> str | None:
        """Restores the newest checkpoint that is whole, or calls `init_fn` if there is none.

        Returns:
            Prefix of the restored checkpoint, or None; also if it was restored from memory.

        Raises:
            CheckpointError: If the checkpoint does not fit, or all of them are damaged.
        """
        self.sync()
        memory, self._memory = self._memory, None
        if memory is not None and self._restore_from(memory):
            return None
        path = self._find_newest()
        if path is not None:
            self.restore(path)
        elif self._init_fn is not None:
            self._init_fn()
        return path

    def _restore_from(self, memory: "memory_checkpoints.MemoryCheckpoints") -> bool:
        newest = self.latest_checkpoint
        step = 0 if newest is None else int(newest.rpartition("-")[2])
        if not memory.restore(oldest_step=step):
            return False
        self._last_step = step
        if newest is not None and self._receipts is not None:
            self._receipts.follow(newest)
        return True

    def _is_saved(self, path: str, step: int) -> bool:
        return step == self._last_step and path in self.checkpoints

    def _find_newest(self) -> str | None:
        candidates = self.checkpoints
        self._warn_of_missing(candidates)
        for path in reversed(candidates):
            damage = find_damage(path)
            if damage is None:
                return path
            logger.warning(
                "The checkpoint %s is damaged (%s). Falling back to the one before.", path, damage
            )
        if candidates:
            raise errors.CheckpointError(
                f"All checkpoints in {self._directory!r} are damaged; the newest is "
                f"{candidates[-1]!r}. Restore one from a copy, or start again in another model_dir."
            )
        return None

    def restore(self, path: str) -> None:
        """Restores one checkpoint.

        Raises:
            CheckpointError: If it does not fit the objects; the message names the first
                differences.
        """
        checkpoint_fit.check_fit(self._checkpoint, path)
        self._checkpoint.read(literal_paths.checkpoint(path)).expect_partial()
        self._last_step = self._step()
        if self._receipts is not None:
            self._receipts.follow(path)

    def discard(self, paths: Sequence[str]) -> None:
        """Deletes checkpoints that are not to be restored, such as those of a diverged training."""
        for path in paths:
            delete_checkpoint(path)
        if self.checkpoints:
            _write_state(self._directory, self.checkpoints)

    def _step(self) -> int:
        if self._step_counter is not None:
            return int(self._step_counter.numpy())
        return self._num_saves

    def _is_due(self, step: int) -> bool:
        interval = self.checkpoint_interval
        if interval is None:
            return True
        return interval > 0 and step - (self._last_step or 0) >= interval

    def _warn_of_missing(self, found: list[str]) -> None:
        recorded = checkpoint_watch.list_recorded(self._directory)
        if not recorded:
            return
        newest = file_paths.join(self._directory, file_paths.basename(recorded[-1]))
        if newest not in found:
            logger.warning(
                "The checkpoint %s is recorded as the newest, but its files are missing. %s",
                newest,
                f"Falling back to {found[-1]}." if found else "There is no other one.",
            )

    def _start_writing(self, write: Callable[[], None]) -> None:
        if not self._enable_async:
            write()
            self.sync()
            return
        self._writer = threading.Thread(target=write, name="checkpoint-writer")
        self._writer.start()

    def _write(
        self,
        snapshots: list[functional_saver.MultiDeviceSaver],
        path: str,
        options: tf.train.CheckpointOptions | None,
        step: int,
        start: float,
    ) -> None:
        """Writes the files beside their place, moves them there, and drops the oldest."""
        try:
            with _temporary_prefix(path) as prefix:
                # Let go before the receipt reads values back: the writer holds one copy at a time.
                snapshots.pop().save(tf.constant(prefix), options=options)
                head = None if self._receipts is None else self._receipts.write(prefix, step)
                _publish(prefix, path)
            if self._receipts is not None and head is not None:
                self._receipts.record(head)
            self._num_saves += 1
            self._record_and_prune()
            if isinstance(self._interval, auto_interval.AutoInterval):
                self._interval.note_cost(time.monotonic() - start)
        except _WRITE_ERRORS as error:
            kept, reason = self.checkpoints, whole_files.advise(error)
            self._last_step = None
            self._write_error = errors.CheckpointError(
                f"The checkpoint {path!r} can't be written: {reason}"
                + (f" The newest one is still {kept[-1]!r}." if kept else "")
            )
            self._write_error.__cause__ = error

    def _record_and_prune(self) -> None:
        paths = self.checkpoints
        kept = paths if self._max_to_keep is None else paths[-self._max_to_keep :]
        _write_state(self._directory, kept)
        for path in paths[: len(paths) - len(kept)]:
            delete_checkpoint(path)


def _capture(checkpoint: tf.train.Checkpoint) -> functional_saver.MultiDeviceSaver:
    """Reads all values now and returns a saver that writes them later.

    This is what `tf.train.Checkpoint.write` does, split in two, which its public interface can't do
    (TensorFlow 2.21).
    """
    with task_state.lookups_cached():
        tensors, _, registered, _ = checkpoint._saver._gather_serialized_tensors()
    for values in tensors.values():
        values.update({key: checkpoint_fit.read_value(value) for key, value in values.items()})
    return functional_saver.MultiDeviceSaver(tensors, registered)


def _write_state(directory: str, paths: list[str]) -> None:
    """Writes the file `checkpoint`, in which TensorFlow's own tools look for the newest one."""
    names = [file_paths.basename(path) for path in paths]
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    whole_files.write(file_paths.join(directory, _STATE_FILE), "\n".join(lines) + "\n")


def write_values(path: str, values: Mapping[str, tf.Tensor]) -> None:
    """Writes a checkpoint of given values, whole or not at all, over one that is there.

    Args:
        path: Its prefix. One called `ckpt-NUMBER` is recorded in its directory.
        values: The values by their keys.

    Raises:
        CheckpointError: If it can't be written.
    """
    directory = file_paths.dirname(path) or "."
    try:
        with _temporary_prefix(path) as prefix:
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=list(values),
                shape_and_slices=[""] * len(values),
                tensors=list(values.values()),
            )
            _publish(prefix, path)
        if path in (known := list_checkpoints(directory)):
            _write_state(directory, known)
    except _WRITE_ERRORS as error:
        raise errors.CheckpointError(
            f"The checkpoint {path!r} can't be written: {whole_files.advise(error)}"
        ) from error


def list_checkpoints(directory: str, name: str = "ckpt") -> list[str]:
    """Returns the prefixes of the complete checkpoints in `directory`, by rising number."""
    if not file_io.isdir(directory):
        return []
    pattern = re.compile(re.escape(name) + r"-(\d+)\.index")
    numbers = [
        int(match[1]) for entry in file_io.listdir(directory) if (match := pattern.fullmatch(entry))
    ]
    return [file_paths.join(directory, f"{name}-{number}") for number in sorted(numbers)]


def delete_checkpoint(path: str) -> None:
    """Deletes the files of a checkpoint, its index first, so that it is never half there."""
    for file in [f"{path}.index", *list_data_files(path), path + receipts.SUFFIX]:
        with contextlib.suppress(FileNotFoundError):
            file_io.remove(file)


class MissingStepError(errors.CheckpointError, ValueError):
    """A checkpoint does not exist, or holds no `global_step`."""


def read_global_step_from_checkpoint(ckpt_file_path: str) -> int:
    """Returns the training step of a checkpoint.

    Raises:
        MissingStepError: If it does not exist, or does not tell.
    """
    try:
        return checkpoint_fit.read_step(ckpt_file_path)
    except errors.CheckpointError as error:
        raise MissingStepError(f"global_step not found. {error}") from error


def remove_ckpts(model_dir: str) -> None:
    """Removes the checkpoints of a directory (`ckpt-STEP`) and the file that lists them.

    Args:
        model_dir: The directory. Everything else in it stays, whatever it is called.
    """
    for name in filter(_OWN_FILE.fullmatch, file_io.listdir(model_dir)):
        file_io.remove(file_paths.join(model_dir, name))


def remove_incomplete(directory: str, files: Sequence[str] = ()) -> None:
    """Removes what a killed process left of unfinished checkpoints and files of a run.

    Args:
        directory: The run's directory.
        files: Names of the files that the run writes besides its checkpoints.
    """
    if not file_io.isdir(directory):
        return
    scratches = {f"{name}{whole_files.SCRATCH_SUFFIX}" for name in (_STATE_FILE, *files)}
    unfinished = re.compile(r"ckpt-\d+" + re.escape(whole_files.SCRATCH_SUFFIX))
    for name in file_io.listdir(directory):
        path = file_paths.join(directory, name.rstrip("/"))
        if name in scratches:
            file_io.remove(path)
        elif unfinished.fullmatch(name.rstrip("/")) and file_io.isdir(path):
            file_io.rmtree(path)


def find_damage(path: str) -> str | None:
    """Reads a whole checkpoint and returns what is wrong with it, or None.

    Every value carries a checksum, so that truncated and altered files are found.

    Raises:
        CheckpointError: If it can't be read at all now, which says nothing about it.
    """
    try:
        reader = literal_paths.read(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        if disk_errors.is_transient(error):
            raise errors.CheckpointError(
                f"The checkpoint {path!r} can't be read, though it may be whole: "
                f"{disk_errors.explain(error)} If that can't be mended, move its files away; the "
                "one before is used then."
            ) from error
        return saved_graph.describe_error(error)
    return None


@contextlib.contextmanager
def _temporary_prefix(path: str) -> Iterator[str]:
    """Yields a prefix in a scratch directory beside `path`, which is removed afterwards."""
    scratch = path + whole_files.SCRATCH_SUFFIX
    if file_io.exists(scratch):
        file_io.rmtree(scratch)
    file_io.makedirs(scratch)
    try:
        yield file_paths.join(scratch, file_paths.basename(path))
    finally:
        with contextlib.suppress(*_WRITE_ERRORS):
            file_io.rmtree(scratch)


def _publish(prefix: str, path: str) -> None:
    """Moves written files to their place; the index, which makes them a checkpoint, comes last."""
    receipt = [prefix + receipts.SUFFIX] if file_io.exists(prefix + receipts.SUFFIX) else []
    for file in [*list_data_files(prefix), *receipt, f"{prefix}.index"]:
        whole_files.publish(file, path + file[len(prefix) :])


def list_data_files(path: str) -> list[str]:
    """Returns the files with the values of a checkpoint, found by their exact names."""
    directory, name = file_paths.split(path)
    pattern = re.compile(re.escape(name) + r"\.data-\d{5}-of-\d{5}")
    names = filter(pattern.fullmatch, file_io.listdir(directory or os.curdir))
    return sorted(file_paths.join(directory, found) for found in names)
