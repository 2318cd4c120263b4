"""Records of examples: JSON Lines, TSV with a header line, data sets, images by class.

They are read and checked as a whole before the first step; errors name file and line. Their order
in training is a function of seed and epoch, so that a position in it is restored exactly.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.input import (
    input_files,
    input_sources,
    line_files,
    row_order,
    saved_datasets,
    tfds_source,
)
from quintain.orbit import iterators
from quintain.settings import config_definitions as cfg
from quintain.vision import image_data

DRAW: Final = "draw"
"""Place of an example in the order of training, on which random choices depend."""

Row = tuple[str, Mapping[str, Any]]
"""Place of a record, as FILE:LINE, and its fields."""


def read_data(params: cfg.DataConfig) -> Iterator[Row]:
    """Yields the records that a config names: of files, of `datasets` or of TensorFlow Datasets.

    Classes that have names in a data set are given by these.

    Raises:
        ConfigError: If a package is missing, or there is no such entry or split.
        DataError: As for `read`, or if a data set is not there or empty.
    """
    if params.tfds_name:
        return _read_entry(params)
    if saved_datasets.is_saved(params.input_path):
        dataset = saved_datasets.load(params.input_path)
        return _read_rows(params.input_path, dataset, dataset.features)
    return read(params.input_path)


def read(input_path: str | Sequence[str]) -> Iterator[Row]:
    """Yields the records of files, compressed with gzip where their names end in `.gz`.

    Raises:
        DataError: If a file is missing or can't be read, or a line is no record.
    """
    for path in input_files.match_files(input_path):
        rows = _read_table(path) if path.removesuffix(".gz").endswith(".tsv") else _read_json(path)
        number = 0
        for number, row in rows:
            yield f"{path}:{number}", row
        if not number:
            raise errors.DataError(f"{path}: no examples, the file is empty. Check the path.")


def _read_lines(path: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in line_files.read(path) if line.strip())


def _read_json(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _read_lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise errors.DataError(
                f"{path}:{number}: got {errors.show(line)}, expected a JSON object on each line "
                f"({str(error).partition(':')[0]}). A table needs the ending .tsv."
            ) from error
        if not isinstance(row, dict):
            raise errors.DataError(
                f"{path}:{number}: got {errors.show(line)}, expected a JSON object with the "
                "fields of the example."
            )
        yield number, row


def _read_table(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = _read_lines(path)
    header = next(lines, (0, ""))[1].split("\t")
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(header):
            raise errors.DataError(
                f"{path}:{number}: got {len(cells)} columns, expected the {len(header)} of "
                f"{', '.join(header)}. Fix or remove the line."
            )
        yield number, dict(zip(header, cells, strict=True))


def _read_entry(params: cfg.DataConfig) -> Iterator[Row]:
    for source in input_sources.get_sources(params):
        # Without what the config says of training, so that the order is always the same.
        plain = cfg.DataConfig(
            tfds_data_dir=params.tfds_data_dir, tfds_download=params.tfds_download
        )
        builder = tfds_source.build_builder(source, plain)
        rows = iterators.create_numpy(tfds_source.read(builder, source, plain, seed=None))
        yield from _read_rows(f"{source.location}[{source.split}]", rows, builder.info.features)


def _read_rows(name: str, rows: Iterable[Any], features: Mapping[str, Any]) -> Iterator[Row]:
    for number, row in enumerate(rows, start=1):
        yield f"{name}: row {number}", _to_plain(row, features)


def _to_plain(value: Any, feature: Any) -> Any:
    """Returns a value of a data set as JSON has it, with classes by their names."""
    inner = getattr(feature, "feature", None)  # Of a list.
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [_to_plain(one, inner or feature) for one in value]
    if isinstance(value, Mapping):
        parts = {name: _to_plain(part, (inner or feature)[name]) for name, part in value.items()}
        if inner is None:
            return parts
        # TensorFlow Datasets has a list of records as a record of lists.
        rows = zip(*parts.values(), strict=True)
        return [dict(zip(parts, row, strict=True)) for row in rows]
    is_named = isinstance(value, int) and value >= 0 and getattr(feature, "names", None)
    return feature.int2str(value) if is_named else value


def read_image_folders(directory: str) -> Iterator[Row]:
    """Yields a record for each image of a directory, which has a directory for each class.

    Raises:
        DataError: If there are none.
    """
    is_empty = True
    for label in sorted(name.rstrip("/") for name in file_io.listdir(directory)):
        inside = file_paths.join(directory, label)
        for name in sorted(file_io.listdir(inside)) if file_io.isdir(inside) else ():
            if name.lower().endswith(image_data.SUFFIXES):
                is_empty = False
                path = file_paths.join(inside, name)
                yield path, {"image": path, "label": label}
    if is_empty:
        raise errors.DataError(
            f"input_path: {directory!r} has no images ({', '.join(image_data.SUFFIXES)}) in "
            "directories named by their classes. Check the path."
        )


def take_text(place: str, row: Mapping[str, Any], field: str) -> str:
    """Returns a text of a record.

    Raises:
        DataError: If there is none.
    """
    if not isinstance(row.get(field), str):
        known = ", ".join(map(str, row))
        raise errors.DataError(
            f"{place}: {field}: got {errors.show(row.get(field))}, expected a text. The record has "
            f"the fields {known}; `fields` says which are read."
        )
    return str(row[field])


def take_file(place: str, row: Mapping[str, Any], field: str, directory: str = "") -> str:
    """Returns the path of a file, which a record has from its own file's directory on.

    Args:
        place: Place of the record.
        row: The record.
        field: Its field.
        directory: Another directory.

    Raises:
        DataError: If there is none.
    """
    name = take_text(place, row, field)
    directory = directory or file_paths.dirname(place.rpartition(":")[0])
    path = file_paths.join(directory, name)
    if not file_io.exists(path):
        raise errors.DataError(f"{place}: {field}: no file {path!r}.")
    return path


def take_label(
    place: str, label: Any, names: Sequence[str] | None, num_classes: int, field: str
) -> int:
    """Returns the id of a class, which is given by its name, or by its number.

    Raises:
        DataError: If there is no such class.
    """
    if names is not None:
        if label in names:
            return names.index(label)
        raise errors.DataError(
            f"{place}: {field}: got {errors.show(label)}, expected one of "
            f"{errors.enumerate_some(names)}.{errors.suggest(str(label), names)}"
        )
    try:
        number = int(label)
    except (TypeError, ValueError):
        raise errors.DataError(
            f"{place}: {field}: got {errors.show(label)}, expected a class from 0 to "
            f"{num_classes - 1}. Names of classes go in task.label_names."
        ) from None
    if not 0 <= number < num_classes:
        raise errors.DataError(
            f"{place}: {field}: got {number}, expected a class from 0 to {num_classes - 1}. Fix "
            "the label, or set task.model.num_classes."
        )
    return number


def to_batches(
    columns: Mapping[str, Any],
    params: cfg.DataConfig,
    input_context: tf.distribute.InputContext | None,
    *,
    parser_fn: Callable[..., Any] | None = None,
    postprocess_fn: Callable[..., Any] | None = None,
) -> tf.data.Dataset:
    """Returns batches of examples that have been read.

    Args:
        columns: Arrays by their names; their first dimension is that of the examples.
        params: The data's config.
        input_context: Which part this worker reads.
        parser_fn: Maps an example, which has also its number in the order of training (`DRAW`).
        postprocess_fn: Maps a batch.
    """
    tensors = {name: tf.constant(column) for name, column in columns.items()}

    def take(place: tf.Tensor, number: tf.Tensor) -> dict[str, tf.Tensor]:
        return {DRAW: place, **{name: tensor[number] for name, tensor in tensors.items()}}

    reader = row_order.RowReader(
        params,
        min(map(len, columns.values())),
        counts=True,
        decoder_fn=take,
        parser_fn=parser_fn,
        postprocess_fn=postprocess_fn,
    )
    return reader.read_rows(input_context)
