"""Validation of TSV files and TFRecords of labelled examples, before anything is trained.

Every message names the file and the line or the record, both counted from 1.

Shapes:
    N  records
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.input import input_files, line_files
from quintain.orbit import iterators

LabelType = Literal["int", "float"]
LABEL_DTYPES: Final[Mapping[str, tf.DType]] = {"int": tf.int64, "float": tf.float32}

_CHUNK: Final = 1_024
_SHOWN_NAMES: Final = 12
_WHOLE_NUMBER: Final = re.compile(r" *-?[0-9]+ *")


@dataclasses.dataclass(frozen=True)
class LabelRange:
    """Range of valid labels."""

    label_type: LabelType = "int"
    """Whether labels are class ids or numbers."""

    num_classes: int | None = None
    """Number of classes; None for any label."""

    names: tuple[str, ...] = ()
    """Names of the classes, which stand in the data instead of their ids."""

    lowest: int = 0
    """Lowest id; -1 where some places have no label."""

    def find_problem(self, label: Any) -> str:
        """Returns what is wrong with a label, a number or text, or an empty string."""
        if self.names:
            return self._find_unknown_name(label)
        if self.label_type == "float":
            return "" if _is_finite(label) else f"got {label!r}, expected a finite number."
        if not _WHOLE_NUMBER.fullmatch(str(label)):
            return f"got {label!r}, expected a whole number. Names of classes go in label_names."
        number = int(label)
        if self.num_classes is None or self.lowest <= number < self.num_classes:
            return ""
        return (
            f"got {number}, expected a class from {self.lowest} to {self.num_classes - 1}. Check "
            "the label, or set task.model.num_classes."
        )

    def _find_unknown_name(self, label: Any) -> str:
        name = label.decode("utf-8", "backslashreplace") if isinstance(label, bytes) else str(label)
        if name in self.names:
            return ""
        known = ", ".join(map(repr, self.names[:_SHOWN_NAMES]))
        more = ", ..." if len(self.names) > _SHOWN_NAMES else ""
        return f"got {name!r}, expected one of {known}{more}.{errors.suggest(name, self.names)}"


def _is_finite(label: Any) -> bool:
    try:
        return math.isfinite(float(label)) and "_" not in str(label)
    except ValueError:
        return False


@dataclasses.dataclass(frozen=True)
class Columns:
    """Column numbers of the fields of a TSV file."""

    names: tuple[str, ...]
    """All columns, in order."""

    has_header: bool
    """Whether the first line of each file names them."""

    def index(self, field: str) -> int:
        """Returns the place of a field."""
        return self.names.index(field)


def find_columns(
    paths: Sequence[str], fields: Sequence[str], column_names: Sequence[str] | None
) -> Columns:
    """Finds the columns of TSV files.

    Without `column_names`, for files without a header line, the first line of each file has the
    names; they must be the same.

    Raises:
        ConfigError: If `column_names` lacks a field.
        DataError: If a header does, or headers differ.
    """
    if column_names is not None:
        for field in fields:
            if field not in column_names:
                raise errors.ConfigError(
                    f"column_names: got {list(column_names)}, expected it to hold {field!r}, which "
                    f"text_fields or label_field names.{errors.suggest(field, column_names)}"
                )
        return Columns(tuple(column_names), has_header=False)
    headers = [tuple(next(read_rows(path), (1, [""]))[1]) for path in paths]
    for path, header in zip(paths, headers, strict=True):
        for field in fields:
            if field not in header:
                shown = ", ".join(repr(line_files.shorten(name)) for name in header[:_SHOWN_NAMES])
                raise errors.DataError(
                    f"{path}:1: the header has no column {field!r}, only {shown}."
                    f"{errors.suggest(field, header)} A file without a header line needs "
                    "column_names; the names of text and label go in text_fields and label_field."
                )
        if header != headers[0]:
            raise errors.DataError(
                f"{path}:1: the header differs from that of {paths[0]}. Give all files the same "
                "columns."
            )
    return Columns(headers[0], has_header=True)


def read_rows(path: str, *, skips_damaged: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yields the number and the columns of every line of a TSV file that is not blank.

    With `skips_damaged`, lines that can't be read are left out.

    Raises:
        DataError: If the file can't be read, or a line is not UTF-8.
    """
    for number, text in line_files.read(path, skip=_leave_out if skips_damaged else None):
        if text and not text.isspace():
            yield number, text.split("\t")


def _leave_out(error: errors.DataError) -> None:
    """Does nothing: the reading of the data counts what it leaves out."""


def check_tsv(
    paths: Sequence[str],
    columns: Columns,
    label_field: str | None,
    labels: LabelRange,
    *,
    skips_damaged: bool = False,
) -> None:
    """Reads TSV files and checks the number of columns and the label of every row.

    With `skips_damaged` only labels are errors: rows of too few or too many columns, and lines that
    are not UTF-8, are left out when the data are read.

    Raises:
        DataError: Naming file and line.
    """
    for path in paths:
        num_rows = 0
        rows = read_rows(path, skips_damaged=skips_damaged)
        for number, row in itertools.islice(rows, int(columns.has_header), None):
            if skips_damaged and len(row) != len(columns.names):
                continue
            num_rows += 1
            if len(row) != len(columns.names):
                raise errors.DataError(
                    f"{path}:{number}: got {len(row)} columns, expected the {len(columns.names)} "
                    f"of {', '.join(columns.names)}. Fix or remove the line: "
                    f"{line_files.shorten(chr(9).join(row))!r}"
                )
            if label_field is None:
                continue
            problem = labels.find_problem(row[columns.index(label_field)])
            if problem:
                raise errors.DataError(f"{path}:{number}: {label_field}: {problem}")
        if not num_rows:
            raise errors.DataError(f"{path}: no examples, the file is empty. Check the path.")


def check_records(
    paths: Sequence[str],
    label_field: str,
    labels: LabelRange,
    *,
    skips_damaged: bool = False,
    shape: Sequence[int] = (),
) -> None:
    """Reads TFRecord files and checks the label of every record, or its labels of a shape.

    With `skips_damaged`, records that can't be read or parsed are left to the reading of the data.

    Raises:
        DataError: Naming file and record.
    """
    dtype = tf.string if labels.names else LABEL_DTYPES[labels.label_type]
    features = {label_field: tf.io.FixedLenFeature(list(shape), dtype)}
    for path in paths:
        start = 0
        for chunk in _read_chunks(path, features, skips_damaged=skips_damaged):
            for place in np.argwhere(_suspects(chunk[label_field], labels)):
                problem = labels.find_problem(chunk[label_field][tuple(place)])
                if problem:
                    where = f"{path}: record {start + place[0] + 1}"
                    raise errors.DataError(f"{where}: {label_field}: {problem}")
            start += len(chunk[label_field])
        if not start:
            raise errors.DataError(f"{path}: no examples, the file is empty. Check the path.")


def check_texts(paths: Sequence[str], fields: Sequence[str], *, skips_damaged: bool) -> None:
    """Reads TFRecord files and checks that every record has texts that are not empty.

    With `skips_damaged`, records that can't be read or parsed are left to the reading of the data.

    Raises:
        DataError: Naming file and record.
    """
    for path in paths:
        start = 0
        features = dict.fromkeys(fields, tf.io.FixedLenFeature([], tf.string))
        for chunk in _read_chunks(path, features, skips_damaged=skips_damaged):
            for field in fields:
                empty = [place for place, text in enumerate(chunk[field]) if not text.strip()]
                if empty:
                    raise errors.DataError(
                        f"{path}: record {start + empty[0] + 1}: {field}: got an empty text. Fix "
                        "or remove the record."
                    )
            start += len(chunk[fields[0]])
        if not start:
            raise errors.DataError(f"{path}: no examples, the file is empty. Check the path.")


def _suspects(values: np.ndarray, labels: LabelRange) -> np.ndarray:
    """Returns which labels have to be looked at one by one."""
    if labels.names:
        return ~np.isin(values, [name.encode() for name in labels.names])
    if labels.label_type == "float":
        return ~np.isfinite(values)
    if labels.num_classes is None:
        return np.zeros(values.shape, bool)
    return (values < labels.lowest) | (values >= labels.num_classes)


def _read_chunks(
    path: str, features: dict[str, Any], *, skips_damaged: bool = False
) -> Iterator[dict[str, np.ndarray]]:
    start = 0
    dataset = input_files.read_records(path)
    if skips_damaged:
        dataset = dataset.ignore_errors()
    records = iterators.create_numpy(dataset.batch(_CHUNK))
    while True:
        try:
            chunk = next(records, None)
        except tf.errors.OpError as error:
            raise errors.DataError(
                f"{path}: record {start + 1} or one of the next {_CHUNK} cannot be read "
                f"({error.message})."
            ) from error
        if chunk is None:
            return
        try:
            parsed = tf.io.parse_example(chunk, features)
        except tf.errors.OpError:
            if not skips_damaged:
                raise _unparsable(path, start, chunk, features) from None
            whole = [record for record in chunk if not _find_problem(record, features)]
            parsed = tf.io.parse_example(whole, features)
        yield {name: value.numpy() for name, value in parsed.items()}
        start += len(chunk)


def _find_problem(record: bytes, features: dict[str, Any]) -> str:
    """Returns why a record can't be parsed, or an empty string."""
    try:
        tf.io.parse_single_example(record, features)
    except tf.errors.OpError as error:
        return str(error.message).strip().splitlines()[0]
    return ""


def _unparsable(
    path: str, start: int, chunk: Sequence[bytes], features: dict[str, Any]
) -> errors.DataError:
    """Returns the error of the first record that can't be parsed."""
    expected = ", ".join(
        f"{name!r} ({feature.dtype.name}{list(feature.shape) or ''})"
        for name, feature in features.items()
    )
    for number, record in enumerate(chunk, start=start + 1):
        if problem := _find_problem(record, features):
            return errors.DataError(
                f"{path}: record {number} does not have the features {expected} ({problem})."
            )
    return errors.DataError(f"{path}: records from {start + 1} on cannot be parsed.")


def check_features(paths: Sequence[str], features: dict[str, Any]) -> None:
    """Checks that the first record of every file has the features.

    Raises:
        DataError: Naming file, record and features.
    """
    for path in paths:
        try:
            first = next(iterators.create(input_files.read_records(path).take(1)), None)
        except tf.errors.OpError as error:
            raise errors.DataError(f"{path}: record 1 cannot be read ({error.message}).") from error
        if first is not None and _find_problem(first.numpy(), features):
            raise _unparsable(path, 0, [first.numpy()], features)


def build_row_parser(
    columns: Columns, fields: Sequence[str], *, skips_damaged: bool = False
) -> Callable[[tf.Tensor], Any]:
    """Returns the function that maps a line of a checked TSV file to its fields, all strings.

    With `skips_damaged`, it fails at lines that `check_tsv` lets pass although they are no rows.
    """

    def parse(line: tf.Tensor) -> dict[str, tf.Tensor]:
        line = tf.strings.regex_replace(line, "^\ufeff", "")
        if skips_damaged:
            line = tf.strings.unicode_transcode(line, "UTF-8", "UTF-8", errors="strict")
        row = tf.strings.split(line, "\t")
        if skips_damaged:
            row = tf.ensure_shape(row, [len(columns.names)])
        return {field: row[columns.index(field)] for field in fields}

    return parse
