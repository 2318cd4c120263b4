"""Finds the files that a config names, and reads them in a reproducible order.

Every order here is a function of seed and epoch, so that a position in it can be saved in a
checkpoint and restored exactly.
"""

import dataclasses
import difflib
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths, file_systems, literal_paths
from quintain.input import file_marks
from quintain.orbit import iterators
from quintain.settings import config_definitions as cfg

DatasetFn = Callable[..., tf.data.Dataset]

# What `str.isspace` takes as blank, and a byte-order mark at the start of a file.
_BLANK = r"\x{FEFF}?[\s\v\x1c-\x1f\x{85}\p{Z}]*"

_logger = logging.getLogger(__name__)


def split_paths(input_path: str | Sequence[str], *, name: str = "input_path") -> list[str]:
    """Returns the paths and patterns of a comma-separated string, or of a list of such.

    Raises:
        ConfigError: If `input_path` is neither; `name` is how the message calls it.
    """
    given = [input_path] if isinstance(input_path, str) else input_path
    if not isinstance(given, (list, tuple)) or not all(isinstance(path, str) for path in given):
        raise errors.ConfigError(
            f"{name}: got {input_path!r}, expected a string or a list of strings."
        )
    return [part.strip() for entry in given for part in entry.split(",") if part.strip()]


def match_files(input_path: str | Sequence[str], *, name: str = "input_path") -> list[str]:
    """Returns the files that paths and patterns name.

    Args:
        input_path: Paths, or patterns with `*` and `?`: a comma-separated string or a list. What
            exists under just this name is that file, whatever characters are in it.
        name: Name of the config field, for error messages.

    Returns:
        Files in the order given; those of one pattern sorted by name. In place of one that only
        fsspec can read stands a local copy.

    Raises:
        ConfigError: If nothing is given.
        DataError: If a file does not exist, or a pattern matches none.
    """
    paths = split_paths(input_path, name=name)
    if not paths:
        raise errors.ConfigError(
            f"{name}: got {input_path!r}, expected a file, a pattern, or a list of them."
        )
    files: list[str] = []
    for path in paths:
        if not file_paths.is_local(path):
            _check_scheme(path, name)
        if ("*" in path or "?" in path) and not file_io.exists(path):
            matched = _match(path)
            if not matched:
                raise errors.DataError(f"{name}: no file matches {path!r}. Check the pattern.")
            files += matched
        else:
            _check_file(path, name)
            files.append(path)
    for path in files[-file_marks.MOST_FILES :]:
        file_marks.note(path)
    return [_fetch(path, name) for path in files]


def _check_scheme(path: str, name: str) -> None:
    try:
        file_systems.find(path)
    except OSError as error:
        raise errors.DataError(f"{name}: got {path!r}, but {error.strerror}.") from error


def _fetch(path: str, name: str) -> str:
    try:
        return file_io.fetch(path)
    except OSError as error:
        raise errors.DataError(f"{name}: {path!r} can't be read ({error.strerror}).") from error


def _match(path: str) -> list[str]:
    """Returns the files that match a pattern, of which a directory that exists is no part."""
    directory, pattern = file_paths.split(path)
    while directory and not file_io.isdir(directory):
        parent, name = file_paths.split(directory)
        if parent == directory:
            return []
        directory, pattern = parent, file_paths.join(name, pattern)
    root = literal_paths.directory(directory) if file_paths.is_local(directory) else directory
    found = file_io.glob(file_paths.join(root, pattern))
    return sorted(file_paths.join(directory, one[len(root) :].lstrip("/")) for one in found)


def _check_file(path: str, name: str) -> None:
    if file_io.exists(path):
        if file_io.isdir(path):
            raise errors.DataError(
                f"{name}: {path!r} is a directory, expected a file. To read all files in it, give "
                f"{file_paths.join(path, '*')!r}."
            )
        return
    directory = file_paths.dirname(path) or "."
    if not file_io.isdir(directory):
        raise errors.DataError(f"{name}: no file {path!r}; there is no directory {directory!r}.")
    near = difflib.get_close_matches(file_paths.basename(path), file_io.listdir(directory), n=1)
    hint = f"Did you mean {file_paths.join(file_paths.dirname(path), near[0])!r}?" if near else ""
    raise errors.DataError(f"{name}: no file {path!r}. {hint or 'Check the path.'}")


@tf.autograph.experimental.do_not_convert  # Rewriting it takes longer than all the rest.
def read_records(path: str | tf.Tensor) -> tf.data.TFRecordDataset:
    """Returns the records of one TFRecord file, compressed with gzip if its name ends in `.gz`."""
    return tf.data.TFRecordDataset(path, compression_type=_compression_of(path))


@dataclasses.dataclass(frozen=True)
class FileCount:
    """Numbers of records of a TFRecord file."""

    path: str
    """The file."""

    num_records: int
    """Records that can be read: those before the first damaged one."""

    fault: str | None
    """Damage of the next one; None if the file is whole."""


def count_records(path: str) -> FileCount:
    """Reads a TFRecord file to its end, or to the first record that is damaged."""
    count = 0
    try:
        for count, _ in enumerate(read_records(path), start=1):  # noqa: B007 - the last counts
            pass
    except tf.errors.OpError as error:
        from quintain.process import user_errors  # noqa: PLC0415 - only errors do

        return FileCount(path, count, user_errors.find_cause(error))
    return FileCount(path, count, None)


@tf.autograph.experimental.do_not_convert
def read_lines(path: str | tf.Tensor) -> tf.data.TextLineDataset:
    """Returns the lines of one text file, compressed with gzip if its name ends in `.gz`."""
    return tf.data.TextLineDataset(path, compression_type=_compression_of(path))


@tf.autograph.experimental.do_not_convert
def read_filled_lines(path: str | tf.Tensor) -> tf.data.Dataset:
    """Returns the lines of one text file as `read_lines`, without the blank ones.

    Blank is what Python takes as such, for whoever checks the file beforehand.
    """
    return read_lines(path).filter(lambda line: ~tf.strings.regex_full_match(line, _BLANK))


def _compression_of(path: str | tf.Tensor) -> tf.Tensor:
    return tf.where(tf.strings.regex_full_match(path, r".*\.gz"), "GZIP", "")


def with_compression(dataset_fn: DatasetFn) -> DatasetFn:
    """Returns a reader of records or lines that knows gzip by the name; others unchanged."""
    if dataset_fn is tf.data.TFRecordDataset:
        return read_records
    if dataset_fn is tf.data.TextLineDataset:
        return read_lines
    return dataset_fn


def check_readable(
    files: Sequence[str], dataset_fn: DatasetFn, *, is_training: bool, name: str = "input_path"
) -> None:
    """Reads the first record, so that files of another kind are named before training starts.

    Only files of records and of lines are looked into. Training data without any record is an
    error, because training would wait for it for ever.

    Raises:
        DataError: If the first record can't be read, or training would find none.
    """
    function = dataset_fn.func if isinstance(dataset_fn, functools.partial) else dataset_fn
    known = (read_records, read_lines, read_filled_lines, tf.data.TFRecordDataset)
    if function not in known:
        return
    for path in files:
        try:
            if next(iterators.create(dataset_fn(path).take(1)), None) is not None:
                return
        except tf.errors.OpError as error:
            hint = (
                "It has the ending '.gz' of a compressed file; rename it if it is none."
                if path.endswith(".gz")
                else "If it is compressed with gzip, give it the ending '.gz'; if it holds lines "
                "of text, it needs another dataset_fn."
            )
            raise errors.DataError(
                f"{name}: {path!r} can't be read ({error.message}). {hint}"
            ) from error
    if is_training:
        raise errors.DataError(
            f"{name}: {', '.join(map(repr, files[:3]))}{' ...' if len(files) > 3 else ''}: there "
            "is no record to train on. Check the path."
        )


@tf.autograph.experimental.do_not_convert
def draw_uniform(num: int, *, seed: int | None, epoch: tf.Tensor, stream: int = 0) -> tf.Tensor:
    """Draws numbers that depend on nothing but the arguments, to order an epoch by.

    `Dataset.shuffle` remembers where it is; an order computed from the number of the epoch need
    not, which makes positions small and restores them exactly, wherever the iterator was before.

    Args:
        num: Numbers to draw.
        seed: Seed of the whole run. None draws afresh each time and on each machine.
        epoch: Scalar integer, the number of the epoch.
        stream: 0 or 1, to have two independent draws for an epoch.

    Returns:
        `[num]` float64 in `[0, 1)`.
    """
    if seed is None:
        # `tf.random.uniform` would follow the global seed, which the workers of a service share.
        return tf.raw_ops.RandomUniform(shape=[num], dtype=tf.float64, seed=0, seed2=0)
    pair = tf.stack([tf.constant(seed, tf.int64), 2 * tf.cast(epoch, tf.int64) + stream])
    return tf.random.stateless_uniform([num], pair, dtype=tf.float64, alg="philox")


def read_files(
    files: Sequence[str],
    params: cfg.DataConfig,
    dataset_fn: DatasetFn,
    *,
    seed: int | None,
    num_pipelines: int = 1,
    pipeline: int = 0,
) -> tf.data.Dataset:
    """Returns one worker's records.

    Training shares out whole files if there are enough of them, which reads every file once.
    Otherwise, and in evaluation, where no example may be missed or seen twice, every worker reads
    all files and takes every n-th record.

    Args:
        files: All files, the same on every worker.
        params: How many files to read at once, and whether to train. Training without `cache`
            never ends.
        dataset_fn: Makes a dataset of records from a file name.
        seed: Seed of the order of files in training, the same on workers that share the data.
        num_pipelines: Workers that share the data.
        pipeline: Which of them this is.
    """
    shares_files = bool(params.is_training) and len(files) >= num_pipelines
    if params.is_training:
        if not shares_files:
            _logger.warning(
                "There are %d files for %d workers, so that each worker reads all of them and "
                "keeps every %dth record. Cut the data into more files to read it faster.",
                len(files), num_pipelines, num_pipelines,
            )  # fmt: skip
        part = slice(pipeline, None, num_pipelines) if shares_files else slice(None)
        names = _order_files(files, params, seed=seed, part=part)
    else:
        names = tf.data.Dataset.from_tensor_slices(list(files), name="files")
    dataset = _read_each(names, params, dataset_fn)
    if shares_files or num_pipelines == 1:
        return dataset
    return dataset.shard(num_pipelines, pipeline, name="files")


@tf.autograph.experimental.do_not_convert
def _order_files(
    files: Sequence[str], params: cfg.DataConfig, *, seed: int | None, part: slice
) -> tf.data.Dataset:
    """Returns file names in a new order every epoch: once if cached, else without end."""

    def draw_order(epoch: tf.Tensor) -> tf.data.Dataset:
        order = tf.argsort(draw_uniform(len(files), seed=seed, epoch=epoch), stable=True)
        return tf.data.Dataset.from_tensor_slices(tf.gather(list(files), order[part]))

    num_epochs = 1 if params.cache else tf.int64.max
    epochs = tf.data.Dataset.range(num_epochs, name="files")
    return epochs.flat_map(draw_order, name="files")


def _read_each(
    names: tf.data.Dataset, params: cfg.DataConfig, dataset_fn: DatasetFn
) -> tf.data.Dataset:
    """Reads files: several at once in training, and in evaluation only if asked to."""
    if not params.is_training and params.cycle_length is None:
        return names.flat_map(dataset_fn, name="files")
    options: dict[str, Any] = {"cycle_length": params.cycle_length}
    return names.interleave(
        dataset_fn,
        block_length=params.block_length,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=params.deterministic is not False,
        name="files",
        **options,
    )
