"""Finds the file and the record or line that a failed pipeline choked on.

TensorFlow says what is wrong with a record, but seldom in which file. After such an error the
files of the run are read once more, for a limited time, until one fails alike. What TensorFlow
takes for the end of a file is found before the first step, see `check_files`.
"""

import contextlib
import csv
import gzip
import logging
import os
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.eager import context

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.input import input_files
from quintain.input.diagnosis import pipeline_inspection
from quintain.process import user_errors
from quintain.settings import config_definitions as cfg

SEARCH_SECS: Final = 30.0
"""Seconds of reading after which the search is given up."""

CHECK_SECS: Final = 1.0
"""Seconds of looking through the files of a pipeline, before the first step."""

_MISSING: Final = re.compile(r"(?P<path>/[^\n;]*); (?P<reason>No such file or directory|Is a dir)")
_FEATURE: Final = re.compile(r"(?:Feature|Key): (?P<name>.+?)(?:\. | \(data type)")
_TYPE: Final = re.compile(r"(?:\(data type|[Ee]xpected type): (?P<type>\w+)")
_LINE: Final = re.compile(
    r"Expect \d+ fields but have (?P<count>\d+) in record"
    r"|Field (?P<place>\d+) is required but missing in record"
    r"|(?:Field \d+ in record(?: \d+)? is not a valid \w+|could not correctly convert string): "
    r"(?P<value>.*?)(?: \[Op:[^\]]*\].*)?$",
    re.MULTILINE,
)
_SEPARATORS: Final = re.compile(r"[\t,;| ]")
_OTHER_READERS: Final = re.compile(
    r"((TextLine|FixedLengthRecord|CSV|LMDB|Sql|Generator)Dataset|ReadFile|InitializeTable|"
    r"(Eager)?PyFunc).*"
)
_KINDS: Final = {"int64": "int64_list", "float": "float_list", "string": "bytes_list"}
_GZIP_MAGIC: Final = b"\x1f\x8b"
_HEADER: Final = struct.Struct("<QI")
"""Length of a record and its checksum; the record follows, and another checksum."""

_MAX_LENGTH: Final = 2**40

_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def data_errors_explained(find_sources: Callable[[], Iterable[Any]]) -> Iterator[None]:
    """Raises what is wrong with a file as an error that names it.

    Args:
        find_sources: Returns what was read: data configs, datasets, and graphs with datasets.

    Raises:
        DataError: If a file is gone, or a record or a line of it is damaged or of another kind.
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = find(error, find_sources())
        if found is None:
            raise
        raise errors.DataError(found) from error


def find(error: tf.errors.OpError, sources: Iterable[Any]) -> str | None:
    """Returns which file an error is about, and what is wrong there; None if it is not known."""
    message = error.message
    missing = _MISSING.search(message)
    if missing:
        is_gone = missing["reason"].startswith("No")
        problem = "is not there any more" if is_gone else "is a directory, expected a file"
        return f"{missing['path']}: the file {problem}, but the data is read from it."
    feature = _FEATURE.search(message)
    is_record = isinstance(error, tf.errors.DataLossError) or feature is not None
    line_fault = None if is_record else _LINE.search(message)
    if not is_record and line_fault is None:
        return None
    deadline = time.monotonic() + SEARCH_SECS
    sources = list(sources)
    paths = dict.fromkeys(path for source in sources for path in _list_files(source))
    if line_fault is not None:
        nodes = [node for source in sources for node in _list_nodes(source)]
        known = {node.attr["field_delim"].s.decode() for node in nodes} - {""}
        place = _find_line(line_fault, paths, sorted(known) or [","], deadline)
        return f"{place}: {user_errors.find_cause(error)}." if place else None
    with context.eager_mode():  # Trials may have switched it off.
        for path in paths:
            found = _check(path, message, feature, deadline)
            if found is not None or time.monotonic() > deadline:
                return found
    return None


def _check(path: str, message: str, feature: re.Match[str] | None, deadline: float) -> str | None:
    """Reads a file until a record is damaged, or lacks the feature that an error is about."""
    type_name = _TYPE.search(message)
    number = 0
    try:
        for number, record in enumerate(input_files.read_records(path), start=1):
            if feature is not None:
                kind = _KINDS.get(type_name["type"] if type_name else "")
                problem = _check_feature(record.numpy(), feature["name"], kind)
                if problem:
                    return f"{path}: record {number} {problem}."
            if time.monotonic() > deadline:
                return None
    except tf.errors.NotFoundError:
        return f"{path}: the file is not there any more, but the data is read from it."
    except tf.errors.OpError as error:
        offset = re.search(r"at (\d+)", error.message)
        place = f", at byte {offset[1]}," if offset else ""
        hint = ""
        if number == 0:
            hint = " Is it a TFRecord file? One that is compressed has a name that ends in '.gz'."
        return (
            f"{path}: record {number + 1}{place} is damaged or cut "
            f"({user_errors.find_cause(error)}). Write the file again.{hint}"
        )
    return None


def _check_feature(record: bytes, name: str, kind: str | None) -> str | None:
    try:
        features = tf.train.Example.FromString(record).features.feature
    except Exception:  # noqa: BLE001 - protobuf has an error class for each implementation
        return "is no tf.train.Example"
    if name not in features:
        return f"has no feature {name!r}; there are {', '.join(sorted(features)) or 'none'}"
    found = features[name].WhichOneof("kind")
    if kind is not None and found != kind:
        return f"has the feature {name!r} as {found}, expected {kind}"
    return None


def _find_line(
    fault: re.Match[str], paths: Iterable[str], delimiters: Sequence[str], deadline: float
) -> str:
    """Returns the first line that an error may be about, as `FILE:LINE: TEXT`; empty if none is."""
    for path in paths:
        with contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile), _open(path) as file:
            for number, content in enumerate(file, start=1):
                line = content.decode("utf-8", "replace").rstrip("\r\n")
                if _is_to_blame(line, fault, delimiters):
                    return f"{path}:{number}: {errors.show(line)}"
                if time.monotonic() > deadline:
                    return ""
    return ""


def _is_to_blame(line: str, fault: re.Match[str], delimiters: Sequence[str]) -> bool:
    rows = [_split(line, delimiter) for delimiter in delimiters]
    if fault["count"]:
        return any(len(fields) == int(fault["count"]) for fields in rows)
    if fault["place"]:
        place = int(fault["place"])
        return any(fields[place : place + 1] == [""] for fields in rows)
    fields = [field for row in (*rows, _SEPARATORS.split(line)) for field in row]
    return fault["value"].strip() in map(str.strip, fields)


def _split(line: str, delimiter: str) -> list[str]:
    """Returns the fields of a line; none if it is only a part of a record."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def check_files(dataset: Any) -> None:
    """Looks through the lengths in the local TFRecord files of a pipeline, for a limited time.

    TensorFlow takes what is too short for the header of a record for the end of a file.

    Raises:
        DataError: If a file is cut or holds something else; with `ignore_errors`, it is a warning.
    """
    is_dataset = isinstance(dataset, tf.compat.v2.data.Dataset)
    if not (is_dataset and pipeline_inspection.has_operation(dataset, "TFRecordDataset")):
        return
    nodes = _list_nodes(dataset)
    operations = {node.op for node in nodes}
    strings = _list_strings(nodes)
    if b"ZLIB" in strings or any(map(_OTHER_READERS.fullmatch, operations)):
        return
    deadline = time.monotonic() + CHECK_SECS
    empty = []
    for path in filter(file_paths.is_local, _find_paths(strings)):
        if time.monotonic() > deadline:
            break
        if not file_io.size(path):
            empty.append(path)
        elif fault := _find_fault(path, strings, deadline):
            if "IgnoreErrorsDataset" not in operations:
                raise errors.DataError(f"{path}: {fault}. Mend or leave out the file.")
            _logger.warning("%s: %s.", path, fault)
    if empty:
        more = f", and {len(empty) - 3} more" if len(empty) > 3 else ""
        _logger.warning("There is no record in %s%s.", ", ".join(empty[:3]), more)


def _find_fault(path: str, compressions: Sequence[bytes], deadline: float) -> str | None:
    """Goes from header to header of a TFRecord file; returns what is wrong with it, if known."""
    is_gzip, is_gzip_meant = _is_gzip(path), b"GZIP" in compressions
    if is_gzip and not is_gzip_meant:
        return "is compressed with gzip, but read as if it were not"
    if not is_gzip and is_gzip_meant and b"" not in compressions:  # Our readers know by the name.
        return "is read as if it were compressed with gzip, but it is not"
    number = start = 0
    try:
        with _open(path) as file:
            while (header := file.read(_HEADER.size)) and time.monotonic() < deadline:
                number += 1
                length = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else _MAX_LENGTH
                end = start + _HEADER.size + length + 4
                if length < _MAX_LENGTH:
                    file.seek(end - 1)
                if length >= _MAX_LENGTH or not file.read(1):
                    if number == 1:
                        return "is no TFRecord file, or cut in its first record"
                    return f"record {number}, at byte {start}, is cut"
                start = end
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"is damaged or cut ({error})"
    return None


def _is_gzip(path: str) -> bool:
    with file_io.open(path, "rb") as file:
        return bool(file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC)


@contextlib.contextmanager
def _open(path: str) -> Iterator[Any]:
    """Opens a file, compressed with gzip or not, for its bytes."""
    is_gzip = _is_gzip(path)
    with file_io.open(path, "rb") as file:
        yield gzip.GzipFile(fileobj=file) if is_gzip else file


def _list_files(source: Any) -> list[str]:
    """Returns the files of a data config, or those named in a graph."""
    if isinstance(source, tf.Graph | tf.compat.v2.data.Dataset):
        return _find_paths(_list_strings(_list_nodes(source)))
    if not isinstance(source, cfg.DataConfig):
        return []
    paths = source.input_path
    given = list(paths.values()) if isinstance(paths, Mapping) else [paths]
    return [
        path
        for part in given
        if isinstance(part, str | list | tuple) and part
        for path in input_files.match_files(part)
    ]


def _list_nodes(source: Any) -> list[Any]:
    """Returns the operations of a graph or a dataset and of its functions; else none."""
    graph = None
    if isinstance(source, tf.Graph):
        graph = source.as_graph_def()
    elif isinstance(source, tf.compat.v2.data.Dataset):
        graph = pipeline_inspection.serialize(source)
    return [] if graph is None else list(pipeline_inspection.all_nodes(graph))


def _list_strings(nodes: Iterable[Any]) -> list[bytes]:
    """Returns the strings among the constants, each once."""
    constants = [node.attr["value"].tensor for node in nodes if node.op == "Const"]
    return list(dict.fromkeys(text for value in constants for text in _decode_strings(value)))


def _find_paths(strings: Iterable[bytes]) -> list[str]:
    """Returns the strings that name a file; a word without `/` and `.` is rather a feature."""
    paths = [os.fsdecode(text) for text in strings if b"/" in text or b"." in text]
    return list(filter(file_io.isfile, paths))


def _decode_strings(tensor: Any) -> list[bytes]:
    """Returns the strings of a constant; none of another type."""
    if tensor.dtype != tf.string.as_datatype_enum:
        return []
    with context.eager_mode():
        found = tf.io.parse_tensor(tensor.SerializeToString(), tf.string)
        return list(tf.reshape(found, [-1]).numpy())
