"""Instances in files: JSON lines, CSV with a header, and NumPy's `.npz` and `.npy`."""

import csv
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.serving import instances

SUFFIXES: Final = (".jsonl", ".json", ".csv", ".npz", ".npy")
"""Ends of the names of files that can be read."""

_NUMBERED: Final = re.compile(r"(.+)[.\[](\d+)\]?")


@dataclasses.dataclass(frozen=True)
class Row:
    """An instance of a file."""

    number: int
    """Line or place in the file, counted from 1."""

    instance: Any = None
    """The instance."""

    problem: str = ""
    """Reason why it can't be read; empty if it can."""

    file: str = ""
    """The file that is the instance; empty if it is a part of one."""

    @property
    def place(self) -> str:
        """Place of the instance, for messages."""
        return self.file or f"line {self.number}"


def read(
    path: str, inputs: Mapping[str, tf.TensorSpec], gaps: instances.Gaps = instances.NO_GAPS
) -> Iterator[Row]:
    """Yields the instances of a file, whose kind its name tells; `gaps` are those of CSV.

    Raises:
        ConfigError: If the name ends in something else.
        DataError: If the file as a whole can't be used.
    """
    suffix = file_paths.suffix(path)
    if suffix not in SUFFIXES:
        raise errors.ConfigError(
            f"--input: got {path!r}, expected a file that ends in {', '.join(SUFFIXES)}."
        )
    if suffix in (".npz", ".npy"):
        yield from _read_arrays(path, inputs)
        return
    with file_io.open(path) as file:
        if suffix == ".csv":
            yield from _read_csv(file, path, inputs, gaps)
        else:
            yield from read_lines(file)


def read_lines(lines: Iterable[str]) -> Iterator[Row]:
    """Yields the instances of JSON lines; empty ones are left out."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield Row(number, json.loads(line))
        except (ValueError, RecursionError) as error:
            reason = str(error).partition(":")[0]
            yield Row(number, problem=f"got {errors.show(line.strip())}, expected JSON ({reason})")


def read_files(paths: Iterable[str], name: str) -> Iterator[Row]:
    """Yields an instance for each file, whose content is the input `name`."""
    for number, path in enumerate(paths, start=1):
        try:
            yield Row(number, {name: file_io.read_bytes(path)}, file=path)
        except OSError as error:
            yield Row(number, problem=f"can't be read: {error.strerror}.", file=path)


def _read_csv(
    file: TextIO, path: str, inputs: Mapping[str, tf.TensorSpec], gaps: instances.Gaps
) -> Iterator[Row]:
    reader = csv.reader(file)
    header = [name.strip() for name in next(reader, [])]
    places = _find_columns(path, header, inputs, gaps.ignored - inputs.keys())
    for cells in reader:
        if not cells:
            continue
        if len(cells) != len(header):
            problem = f"has {len(cells)} cells, expected {len(header)} as in the header"
            yield Row(reader.line_num, problem=problem)
            continue
        row = [None if cell.strip() in gaps.texts else cell for cell in cells]
        instance = {
            name: _parse_cell(row[found[0]], inputs[name])
            if isinstance(found, tuple)
            else [_parse_cell(row[place], inputs[name]) for place in found]
            for name, found in places.items()
        }
        yield Row(reader.line_num, instance)


def _find_columns(
    path: str,
    header: Sequence[str],
    inputs: Mapping[str, tf.TensorSpec],
    ignored: frozenset[str],
) -> dict[str, tuple[int] | list[int]]:
    """Returns the columns of each input: one, or a list of those that are numbered.

    Raises:
        DataError: If a column belongs to no input, or an input has none.
    """
    places: dict[str, tuple[int] | list[int]] = {}
    numbered: dict[str, dict[int, int]] = {}
    for place, name in enumerate(header):
        if name in ignored:
            continue
        found = _NUMBERED.fullmatch(name)
        if name in inputs:
            places[name] = (place,)
        elif found and found[1] in inputs:
            numbered.setdefault(found[1], {})[int(found[2])] = place
        else:
            raise errors.DataError(
                f"{path}:1: the column {name!r} is no input; the model takes {', '.join(inputs)}."
                f"{errors.suggest(name, inputs)} An input of several values has a column for each, "
                "such as x.0, x.1, or a JSON list in its cell."
            )
    for name, columns in numbered.items():
        if sorted(columns) != list(range(len(columns))):
            raise errors.DataError(
                f"{path}:1: the columns of {name!r} have the numbers {sorted(columns)}, expected "
                f"0 to {len(columns) - 1}."
            )
        places[name] = [columns[number] for number in range(len(columns))]
    missing = [name for name in inputs if name not in places]
    if missing:
        raise errors.DataError(f"{path}:1: there is no column for {', '.join(missing)}.")
    return places


def _parse_cell(cell: str | None, spec: tf.TensorSpec) -> Any:
    if cell is None:
        return None
    if spec.dtype == tf.string and not cell.startswith("["):
        return cell
    try:
        return json.loads(cell)
    except ValueError:
        return cell  # What is wrong with it is told with the name of the input.


def _read_arrays(path: str, inputs: Mapping[str, tf.TensorSpec]) -> Iterator[Row]:
    try:
        with file_io.open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            is_single = isinstance(loaded, np.ndarray)
            arrays = {next(iter(inputs)): loaded} if is_single else dict(loaded)
    except (ValueError, EOFError, OSError, tf.errors.OpError) as error:
        raise errors.DataError(f"{path}: can't be read as arrays: {error}") from error
    sizes = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise errors.DataError(
            f"{path}: the arrays have first dimensions of {sizes}, expected equal ones."
        )
    for place in range(next(iter(sizes.values()), 0)):
        yield Row(place + 1, {name: array[place] for name, array in arrays.items()})
