"""Finds the file and the record that a failed pipeline choked on.

TensorFlow says what is wrong with a record, but seldom in which file. After such an error the
files of the run are read once more, for a limited time, until one fails alike.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import tensorflow as tf

from quintain import errors, user_errors
from quintain.core import config_definitions as cfg
from quintain.core import input_files

SEARCH_SECS: Final = 30.0
"""How long the files are read for, before the search is given up."""

_MISSING: Final = re.compile(r"(?P<path>/[^\n;]*); (?P<reason>No such file or directory|Is a dir)")
_FEATURE: Final = re.compile(r"(?:Feature|Key): (?P<name>.+?)(?:\. | \(data type)")
_TYPE: Final = re.compile(r"(?:\(data type|[Ee]xpected type): (?P<type>\w+)")
_KINDS: Final = {"int64": "int64_list", "float": "float_list", "string": "bytes_list"}


@contextlib.contextmanager
def naming(find_sources: Callable[[], Iterable[Any]]) -> Iterator[None]:
    """Raises what is wrong with a file as an error that names it.

    Args:
        find_sources: Returns what was read: data configs and datasets.

    Raises:
        DataError: If a file is gone, or a record of it is damaged or of another kind.
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
        sources: Data configs and datasets.
    """
    message = error.message
    missing = _MISSING.search(message)
    if missing:
        is_gone = missing["reason"].startswith("No")
        problem = "is not there any more" if is_gone else "is a directory, expected a file"
        return f"{missing['path']}: the file {problem}, but the data is read from it."
    feature = _FEATURE.search(message)
    if not isinstance(error, tf.errors.DataLossError) and feature is None:
        return None
    deadline = time.monotonic() + SEARCH_SECS
    paths = dict.fromkeys(path for source in sources for path in _list_files(source))
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


def _list_files(source: Any) -> list[str]:
    """Returns the files of a data config, or those named in the graph of a dataset."""
    if isinstance(source, tf.data.Dataset):
        graph = tf.compat.v1.GraphDef.FromString(source._as_serialized_graph().numpy())
        functions = [node for function in graph.library.function for node in function.node_def]
        nodes = [node for node in (*graph.node, *functions) if node.op == "Const"]
        values = [node.attr["value"].tensor for node in nodes]
        strings = [text for value in values for text in _decode_strings(value)]
        return [path.decode() for path in strings if b"/" in path and _is_file(path)]
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


def _is_file(path: bytes) -> bool:
    return bool(tf.io.gfile.exists(path)) and not tf.io.gfile.isdir(path)
