"""The objects of a checkpoint, and how they hang together."""

import collections
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from quintain import errors
from quintain.files import file_io, file_paths, literal_paths

ROOT: Final = 0
"""The object that a checkpoint was made of."""

OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Key of what a checkpoint tells of its objects."""

OPTIMIZER: Final = "optimizer"
"""Name of an optimizer below a run, or below a compiled model."""

_STEP: Final = re.compile(r"-(\d+)$")


class SavedGraph:
    """Finds variables of a checkpoint by any path that leads to them.

    The keys of a file name each variable once; the graph knows all its names.
    """

    def __init__(self, reader: Any) -> None:
        """Reads the graph of a checkpoint that `tf.train.load_checkpoint` has opened."""
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(reader.get_tensor(OBJECT_GRAPH))
        self._reader = reader
        self._nodes = graph.nodes
        self._shapes = reader.get_variable_to_shape_map()

    @property
    def shapes(self) -> Mapping[str, list[int]]:
        """Shapes of all variables, by their keys in the file."""
        return self._shapes

    def find(self, node: int, names: Sequence[str]) -> int | None:
        """Returns the object that a path leads to from another."""
        for name in names:
            children = self.list_children(node)
            if name not in children:
                return None
            node = children[name]
        return node

    def list_children(self, node: int) -> dict[str, int]:
        """Returns the objects right below one, by name."""
        return {child.local_name: child.node_id for child in self._nodes[node].children}

    def list_values(self, node: int) -> dict[str, str]:
        """Returns the keys in the file of the values of an object, by their last part.

        An object with several values, such as a table, has them behind one name.
        """
        found: dict[str, str] = {}
        for value in self._nodes[node].attributes:
            start = value.checkpoint_key
            parts = [key for key in self._shapes if key.startswith(f"{start}-")]
            keys = [start] if start in self._shapes else parts
            found |= {key.rpartition("/.ATTRIBUTES/")[2]: key for key in keys}
        return found

    def get_name(self, node: int) -> str:
        """Returns the name that a variable had; empty for other objects."""
        return next((value.full_name for value in self._nodes[node].attributes), "")

    def match(self, items: Mapping[str, Any]) -> dict[int, Any]:
        """Finds objects in the checkpoint, each by the first path that leads to it.

        Optimizers come last: their lists hold the variables that are trained, by number only.

        Returns:
            Objects by what the checkpoint holds of them.
        """
        matched: dict[int, Any] = {}
        bound: set[int] = set()
        queue = collections.deque(self._pair(ROOT, items))
        later = collections.deque[tuple[str, int, Any]]()
        while queue or later:
            is_late = not queue
            name, node, item = (later if is_late else queue).popleft()
            if node in matched or id(item) in bound:
                continue
            if name == OPTIMIZER and not is_late:
                later.append((name, node, item))
                continue
            matched[node] = item
            bound.add(id(item))
            queue.extend(self._pair(node, tf.train.TrackableView.children(item)))
        return matched

    def _pair(self, node: int, items: Mapping[str, Any]) -> list[tuple[str, int, Any]]:
        children = self.list_children(node).items()
        return [(name, child, items[name]) for name, child in children if name in items]

    def get_key(self, node: int) -> str | None:
        """Returns the key of a variable in the file; None for other objects."""
        return self.list_values(node).get("VARIABLE_VALUE")

    def get_shape(self, node: int) -> list[int] | None:
        """Returns the shape of a variable; None for other objects."""
        key = self.get_key(node)
        return None if key is None else list(self._shapes[key])

    def read(self, key: str) -> np.ndarray:
        """Returns a variable's value by its key in the file."""
        return np.asarray(self._reader.get_tensor(key))

    def walk(self, root: int, name: str) -> Iterator[tuple[int, str]]:
        """Yields all objects below one, with the shortest path to each; optimizers come last."""
        queue, seen = collections.deque([(root, name)]), set[int]()
        later = collections.deque[tuple[int, str]]()
        while queue or later:
            is_late = not queue
            node, label = (later if is_late else queue).popleft()
            if node in seen:
                continue
            if label.endswith(f".{OPTIMIZER}") and not is_late:
                later.append((node, label))
                continue
            seen.add(node)
            yield node, label
            queue.extend(
                (child.node_id, f"{label}.{child.local_name}")
                for child in self._nodes[node].children
            )


def open_reader(path: str, field: str = "") -> Any:
    """Opens a checkpoint.

    Raises:
        CheckpointError: If there is none at the path, with the nearest ones, or it is damaged.
    """
    try:
        return literal_paths.read(path)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        is_there = file_io.exists(f"{path}.index")
        reason = describe_error(error) if is_there else _find_nearest(path)
        start = f"{field}: got {path!r}, which" if field else f"{path!r}"
        raise errors.CheckpointError(f"{start} is no checkpoint: {reason}") from error


def describe_error(error: Exception) -> str:
    """Returns the first line of what TensorFlow or the operating system says."""
    return (getattr(error, "message", None) or str(error)).strip().partition("\n")[0]


def _find_nearest(path: str) -> str:
    """Returns what there is in place of a checkpoint that does not exist."""
    directory, name = file_paths.split(path)
    if not file_io.isdir(directory or "."):
        return f"there is no directory {directory!r}. Check the path."
    files = [entry.rstrip("/") for entry in file_io.listdir(directory or ".")]
    found = [entry.removesuffix(".index") for entry in files if entry.endswith(".index")]
    if not found:
        return f"there is nothing of that name. Check the path.{errors.suggest(name, files)}"
    step = _get_step(name)
    found.sort(key=lambda other: (abs(_get_step(other) - step), other))
    nearest = file_paths.join(directory, found[0])
    shown = errors.enumerate_some(sorted(found, key=lambda other: (_get_step(other), other)))
    return f"{directory or '.'!r} holds {shown}. The nearest one is {nearest!r}."


def _get_step(name: str) -> int:
    match = _STEP.search(name)
    return int(match[1]) if match else -1
