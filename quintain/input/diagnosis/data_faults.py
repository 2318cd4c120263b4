"""Finds the file and the record or line that a failed pipeline choked on.

TensorFlow says what is wrong with a record, but seldom in which file. After such an error the
files of the run are read once more, for a limited time, until one fails alike. What TensorFlow
takes for the end of a file is found before the first step, see `check_files`.
"""

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.eager import context

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.input import input_files
from quintain.input.diagnosis import line_faults, pipeline_inspection, record_files
from quintain.process import user_errors
from quintain.settings import config_definitions as cfg

SEARCH_SECS: Final = 30.0
"""How long the files are read for, before the search is given up."""

CHECK_SECS: Final = 1.0
"""How long the files of a pipeline are looked through for, before the first step."""

_MISSING: Final = re.compile(r"(?P<path>/[^\n;]*); (?P<reason>No such file or directory|Is a dir)")
_FEATURE: Final = re.compile(r"(?:Feature|Key): (?P<name>.+?)(?:\. | \(data type)")
_TYPE: Final = re.compile(r"(?:\(data type|[Ee]xpected type): (?P<type>\w+)")
_OTHER_READERS: Final = re.compile(
    r"((TextLine|FixedLengthRecord|CSV|LMDB|Sql|Generator)Dataset|ReadFile|InitializeTable|"
    r"(Eager)?PyFunc).*"
)
_KINDS: Final = {"int64": "int64_list", "float": "float_list", "string": "bytes_list"}

_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def naming(find_sources: Callable[[], Iterable[Any]]) -> Iterator[None]:
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
    """Returns which file an error is about, and what is wrong there; None if it is not known.

    Args:
        error: What reading, parsing or training on data raised.
        sources: Data configs, datasets, and graphs with datasets.
    """
    message = error.message
    missing = _MISSING.search(message)
    if missing:
        is_gone = missing["reason"].startswith("No")
        problem = "is not there any more" if is_gone else "is a directory, expected a file"
        return f"{missing['path']}: the file {problem}, but the data is read from it."
    feature = _FEATURE.search(message)
    is_record = isinstance(error, tf.errors.DataLossError) or feature is not None
    if not is_record and not line_faults.is_about_a_line(message):
        return None
    deadline = time.monotonic() + SEARCH_SECS
    sources = list(sources)
    paths = dict.fromkeys(path for source in sources for path in _list_files(source))
    if not is_record:
        delimiters = {node.attr["field_delim"].s for one in sources for node in _list_nodes(one)}
        known = [text.decode() for text in sorted(delimiters) if text]
        line = line_faults.find(message, paths, known, deadline)
        return f"{line}: {user_errors.find_cause(error)}." if line else None
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


def check_files(dataset: Any) -> None:
    """Looks through the lengths in the local TFRecord files of a pipeline, for a limited time.

    Args:
        dataset: The pipeline; of anything else than a dataset nothing is known.

    Raises:
        DataError: If a file is cut or holds something else; with `ignore_errors`, it is a warning.
    """
    if not isinstance(dataset, tf.compat.v2.data.Dataset):
        return
    if not pipeline_inspection.has_operation(dataset, "TFRecordDataset"):
        return
    nodes = _list_nodes(dataset)
    operations = {node.op for node in nodes}
    strings = _list_strings(nodes)
    is_gzip_meant = b"GZIP" in strings
    is_plain_meant = b"" in strings or not is_gzip_meant  # the package's readers know by the name
    is_sure = b"ZLIB" not in strings and not any(map(_OTHER_READERS.fullmatch, operations))
    deadline = time.monotonic() + CHECK_SECS
    empty = []
    for path in filter(file_paths.is_local, _find_paths(strings)):
        if time.monotonic() > deadline:
            break
        fault = None
        is_gzip = record_files.is_gzip(path)
        if not file_io.size(path):
            empty.append(path)
        elif is_sure and is_gzip and not is_gzip_meant:
            fault = "is compressed with gzip, but read as if it were not"
        elif is_sure and not is_gzip and not is_plain_meant:
            fault = "is read as if it were compressed with gzip, but it is not"
        elif is_sure or record_files.is_record_file(path):
            fault = record_files.find_fault(path, deadline=deadline)
        if fault is None:
            continue
        if "IgnoreErrorsDataset" not in operations:
            raise errors.DataError(f"{path}: {fault}. Mend or leave out the file.")
        _logger.warning("%s: %s.", path, fault)
    if empty and is_sure:
        more = f", and {len(empty) - 3} more" if len(empty) > 3 else ""
        _logger.warning("There is no record in %s%s.", ", ".join(empty[:3]), more)


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
    return [path for path in paths if _is_file(path)]


def _decode_strings(tensor: Any) -> list[bytes]:
    """Returns the strings of a constant; packed, their lengths stand before them as varints."""
    content = tensor.tensor_content
    if tensor.dtype != tf.string.as_datatype_enum or not content:
        return list(tensor.string_val)
    position, lengths = 0, []
    for _ in range(tf.TensorShape(tensor.tensor_shape).num_elements()):
        length = shift = 0
        while True:
            byte = content[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        lengths.append(length)
    strings = []
    for length in lengths:
        strings.append(content[position : position + length])
        position += length
    return strings


def _is_file(path: str) -> bool:
    if file_paths.is_local(path):
        return file_io.isfile(path)
    return bool(file_io.exists(path)) and not file_io.isdir(path)
