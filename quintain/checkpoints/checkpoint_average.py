"""The average of several checkpoints of a run, which often evaluates better than the last one.

The average is a checkpoint like those it was made of: evaluation, translation, exports and
`init_checkpoint` read it. Every value of floating-point type is averaged, the optimizer's included
(a moving average of the weights has to be). Everything else comes from the newest: the step,
other integers, the position in the data.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit, checkpoints, run_lock, saved_graph
from quintain.files import file_io, file_paths, whole_files

DIRECTORY: Final = "averaged"
"""Directory of a run's averages, below its own."""

_NUMBERED: Final = re.compile(r".*-(\d+)")
_NOT_COPIED: Final = re.compile(
    r"checkpoint|.*\.(index|incomplete|jsonl|lock|pid|receipt\.json)|.*\.data-\d+-of-\d+|"
    r"events\.out\..*|\..*"
)


@dataclasses.dataclass(frozen=True)
class Average:
    """An average that was written."""

    path: str
    """Its prefix."""

    sources: tuple[str, ...]
    """The checkpoints it is the average of, the newest last."""

    num_averaged: int
    """Numbers in it that are averages."""


def find_newest(model_dir: str, num_checkpoints: int, *, is_exact: bool) -> list[str]:
    """Returns the newest checkpoints of a run, oldest first: two at least, or all if `is_exact`.

    Raises:
        CheckpointError: If there are too few.
    """
    found = checkpoints.list_checkpoints(model_dir)[-num_checkpoints:]
    if len(found) < (num_checkpoints if is_exact else min(num_checkpoints, 2)):
        names = ", ".join(file_paths.basename(path) for path in found) or "none"
        raise errors.CheckpointError(
            f"model_dir: {model_dir!r} holds {len(found)} checkpoints ({names}), expected "
            f"{num_checkpoints if is_exact else 'several'} to average. How many a run keeps is "
            "trainer.max_to_keep."
        )
    return found


def find_named(names: Sequence[str], model_dir: str | None) -> list[str]:
    """Returns the prefixes of checkpoints that are given by path, by name or by step.

    Args:
        names: Such as `runs/a/ckpt-800`, or `ckpt-800` or `800` in `model_dir`.
        model_dir: The run's directory, if known.

    Raises:
        CheckpointError: If there is none of a name, or a checkpoint is named twice.
    """
    known = {
        file_paths.basename(path): path for path in checkpoints.list_checkpoints(model_dir or "")
    }
    found: list[str] = []
    for name in names:
        plain = name.removesuffix(".index")
        candidates = [plain]
        if model_dir:
            candidates += [file_paths.join(model_dir, one) for one in (plain, f"ckpt-{plain}")]
        path = next((one for one in candidates if file_io.exists(f"{one}.index")), None)
        if path is None:
            where = f" {model_dir!r} holds {', '.join(known) or 'none'}." if model_dir else ""
            raise errors.CheckpointError(
                f"there is no checkpoint {name!r}.{where}{errors.suggest(plain, list(known))}"
            )
        if file_paths.absolute(path) in map(file_paths.absolute, found):
            raise errors.CheckpointError(f"the checkpoint {name!r} is given twice.")
        found.append(path)
    return found


def average_checkpoints(
    paths: Sequence[str], output: str | None = None, *, model_dir: str | None = None
) -> Average:
    """Writes the average of checkpoints of one run, or of several runs of one model.

    Sums are kept in float64; values that are equal in all checkpoints stay as they are, to the bit.
    Where the output is in another directory than the run, the run's small files (`params.yaml`, a
    vocabulary, whatever the task keeps) are copied beside it, so that the directory can be used as
    that of a run.

    Args:
        paths: Prefixes of the checkpoints.
        output: Prefix of the average, or a directory for it (ending in `/`, or existing). None
            means `averaged/ckpt-STEP` in `model_dir`.
        model_dir: The run's directory; None for that of the newest checkpoint.

    Raises:
        CheckpointError: If there is no checkpoint, one can't be read, they differ in the names,
            types or shapes of their values, or the output would become one of the run's own.
    """
    if not paths:
        raise errors.CheckpointError("there is no checkpoint to average.")
    ordered = _sort_by_step(paths)
    run_dir = model_dir or file_paths.dirname(ordered[-1]) or "."
    path = _choose_output(output, ordered, run_dir)
    readers = [saved_graph.open_reader(source) for source in ordered]
    _check_alike(ordered, readers)
    values, num_averaged = _average_values(ordered, readers)
    directory = file_paths.dirname(path) or "."
    with run_lock.hold(directory):
        _copy_run_files(run_dir, directory, is_own=output is None)
        checkpoints.write_values(path, values)
    return Average(path, tuple(ordered), num_averaged)


def _sort_by_step(paths: Sequence[str]) -> list[str]:
    """Returns checkpoints by their steps; in the given order if one does not tell its step."""
    try:
        steps = [checkpoint_fit.read_step(path) for path in paths]
    except errors.CheckpointError:
        return list(paths)
    return [path for _, path in sorted(zip(steps, paths, strict=True), key=lambda pair: pair[0])]


def _choose_output(output: str | None, sources: Sequence[str], run_dir: str) -> str:
    match = _NUMBERED.fullmatch(file_paths.basename(sources[-1]))
    try:
        step: int | str = checkpoint_fit.read_step(sources[-1])
    except errors.CheckpointError:
        step = match[1] if match else 0
    name = f"ckpt-{step}"
    if output is None:
        return file_paths.join(run_dir, DIRECTORY, name)
    path = output.removesuffix(".index")
    if path.endswith("/") or file_io.isdir(path):
        path = file_paths.join(path, name)
    is_in_run = file_paths.absolute(file_paths.dirname(path) or ".") == file_paths.absolute(run_dir)
    if file_paths.absolute(path) in map(file_paths.absolute, sources) or (
        is_in_run and re.fullmatch(r"ckpt-\d+", file_paths.basename(path))
    ):
        raise errors.CheckpointError(
            f"output: got {output!r}, which the run would take for a checkpoint of its own and go "
            f"on from. Give another directory, or another name, such as "
            f"{file_paths.join(run_dir, DIRECTORY, name)!r}."
        )
    return path


def _check_alike(paths: Sequence[str], readers: Sequence[Any]) -> None:
    """Checks that all checkpoints hold values of the same names, types and shapes."""
    for path, reader in zip(paths[:-1], readers[:-1], strict=True):
        differences = list(_differences(path, reader, paths[-1], readers[-1]))
        if not differences:
            continue
        raise errors.CheckpointError(
            f"the checkpoints {path!r} and {paths[-1]!r} are not of the same model:\n"
            f"{checkpoint_fit.list_some(differences)}\n"
            "Average checkpoints of one run, or of runs with the same settings."
        )


def _differences(
    path_a: str,
    reader_a: Any,
    path_b: str,
    reader_b: Any,
) -> Iterator[str]:
    a, b = _describe_variables(reader_a), _describe_variables(reader_b)
    for key in sorted(a.keys() | b.keys()):
        name = checkpoint_fit.plain_key(key)
        if key not in a:
            yield f"{name}: in {path_b}, not in {path_a}"
        elif key not in b:
            yield f"{name}: in {path_a}, not in {path_b}"
        elif a[key] != b[key]:
            yield f"{name}: {a[key]} in {path_a}, {b[key]} in {path_b}"


def _describe_variables(reader: Any) -> dict[str, str]:
    """Returns type and shape of every variable in a file, by its key."""
    types = reader.get_variable_to_dtype_map()
    return {
        key: f"{types[key].name} {list(shape)}"
        for key, shape in reader.get_variable_to_shape_map().items()
        if checkpoint_fit.is_variable(key)
    }


def _average_values(
    paths: Sequence[str], readers: Sequence[Any]
) -> tuple[dict[str, tf.Tensor], int]:
    """Returns the values of the average by their keys, and how many numbers were averaged."""
    values, num_averaged = {}, 0
    for key, dtype in sorted(readers[-1].get_variable_to_dtype_map().items()):
        value = _read(paths[-1], readers[-1], key)
        if checkpoint_fit.is_variable(key) and (dtype.is_floating or dtype == tf.bool):
            parts = [value, *map(_read, paths[:-1], readers[:-1], itertools.repeat(key))]
            if dtype == tf.bool:
                _check_equal(key, paths, parts)
            else:
                value = _average(parts)
                num_averaged += value.size
        values[key] = tf.cast(tf.constant(value), dtype)
    return values, num_averaged


def _average(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the mean of arrays in float64, exact where all of them are equal."""
    first, *others = (np.asarray(part).astype(np.float64) for part in parts)
    total, is_equal = np.zeros_like(first), np.ones(first.shape, bool)
    for other in others:
        is_equal &= other == first
        with np.errstate(invalid="ignore"):
            total += other - first
    return np.asarray(np.where(is_equal, first, first + total / len(parts)))


def _check_equal(key: str, paths: Sequence[str], parts: Sequence[np.ndarray]) -> None:
    """Checks a flag, which a mean would make no sense of."""
    for path, part in zip(paths[:-1], parts[1:], strict=True):
        if not np.array_equal(part, parts[0]):
            raise errors.CheckpointError(
                f"{checkpoint_fit.plain_key(key)}: is {part} in {path!r}, but {parts[0]} in "
                f"{paths[-1]!r}. The best checkpoint of a run that keeps a moving average, say, "
                "holds the average in place of the weights, and other checkpoints do not: average "
                "checkpoints of one kind."
            )


def _read(path: str, reader: Any, key: str) -> np.ndarray:
    try:
        value: np.ndarray = reader.get_tensor(key)
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        raise errors.CheckpointError(
            f"the checkpoint {path!r} is damaged: {saved_graph.describe_error(error)}"
        ) from error
    return value


def _copy_run_files(run_dir: str, directory: str, *, is_own: bool) -> None:
    """Copies what describes a run, but neither its checkpoints nor its records."""
    if file_paths.absolute(run_dir) == file_paths.absolute(directory):
        return
    copies = {}
    for name in file_io.listdir(run_dir):
        path, target = file_paths.join(run_dir, name), file_paths.join(directory, name)
        if file_io.isdir(path) or _NOT_COPIED.fullmatch(name):
            continue
        copies[target] = file_io.read_bytes(path)
        if not is_own and file_io.exists(target) and file_io.read_bytes(target) != copies[target]:
            raise errors.CheckpointError(
                f"output: {target!r} is another file than {path!r} of the run, and would be "
                "overwritten. Give a directory of its own."
            )
    for target, content in copies.items():
        whole_files.write(target, content)
