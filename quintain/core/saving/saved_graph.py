"""The objects of a checkpoint, and how they hang together."""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from quintain import errors
from quintain.core.saving import checkpoint_fit
from quintain.orbit import literal_paths

ROOT: Final = 0
"""The object that a checkpoint was made of."""


class SavedGraph:
    """Finds variables of a checkpoint by any path that leads to them.

    The keys of a file name each variable once; the graph knows all its names.
    """

    def __init__(self, reader: Any) -> None:
        """Reads the graph of a checkpoint that `tf.train.load_checkpoint` has opened."""
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(reader.get_tensor(checkpoint_fit.OBJECT_GRAPH))
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

    def get_key(self, node: int) -> str | None:
        """Returns the key of a variable in the file; None for other objects."""
        for attribute in self._nodes[node].attributes:
            if attribute.name == "VARIABLE_VALUE" and attribute.checkpoint_key in self._shapes:
                return str(attribute.checkpoint_key)
        return None

    def get_shape(self, node: int) -> list[int] | None:
        """Returns the shape of a variable; None for other objects."""
        key = self.get_key(node)
        return None if key is None else list(self._shapes[key])

    def read(self, key: str) -> np.ndarray:
        """Returns a variable's value by its key in the file."""
        return np.asarray(self._reader.get_tensor(key))

    def walk(self, root: int, name: str) -> Iterator[tuple[int, str]]:
        """Yields all objects below one, with the shortest path to each."""
        queue, seen = collections.deque([(root, name)]), {root}
        while queue:
            node, label = queue.popleft()
            yield node, label
            for child in self._nodes[node].children:
                if child.node_id not in seen:
                    seen.add(child.node_id)
                    queue.append((child.node_id, f"{label}.{child.local_name}"))


def open_reader(path: str, field: str) -> Any:
    """Opens a checkpoint.

    Raises:
        CheckpointError: If there is none at the path.
    """
    try:
        return literal_paths.read(path)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise errors.CheckpointError(
            f"{field}: got {path!r}, which is no checkpoint: {checkpoint_fit.describe_error(error)}"
        ) from error
