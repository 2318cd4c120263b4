"""Loads parts of a model from a run of pretraining, and says what does not fit."""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from quintain import errors
from quintain.core import checkpoint_fit

_SHOWN: Final = 5
_SUFFIX: Final = "/.ATTRIBUTES/VARIABLE_VALUE"
_OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"


def restore_parts(parts: Mapping[str, keras.layers.Layer], path: str, field: str) -> None:
    """Restores layers by the names that they have in a checkpoint.

    Args:
        parts: Built layers by name.
        path: Prefix of a checkpoint, or a directory of checkpoints, of which the newest is taken.
        field: The config field that gives the path, for messages.

    Raises:
        CheckpointError: If there is no checkpoint, it lacks a part, or a part has other shapes.
    """
    if tf.io.gfile.isdir(path):
        latest = tf.train.latest_checkpoint(path)
        if latest is None:
            raise errors.CheckpointError(
                f"{field}: got {path!r}, a directory without a checkpoint."
            )
        path = latest
    differences = _find_differences(parts, path, field)
    if differences:
        more = len(differences) - _SHOWN
        raise errors.CheckpointError(
            f"{field}: the checkpoint {path!r} does not fit this model:\n"
            + "\n".join(f"  {line}" for line in differences[:_SHOWN])
            + (f"\n  and {more} more differences" if more > 0 else "")
            + "\nGive task.model.encoder the sizes it was pretrained with (`params.yaml` beside "
            "the checkpoint), and the same vocabulary."
        )
    for name, part in parts.items():
        _check_visible(name, part, field)
    status = tf.train.Checkpoint(**parts).read(path)
    status.expect_partial().assert_existing_objects_matched()


def _check_visible(name: str, part: keras.layers.Layer, field: str) -> None:
    """Checks that a checkpoint sees all weights of a part: some would stay new without a word."""
    checkpoint = tf.train.Checkpoint(part=part)
    tensors, *_ = checkpoint._saver._gather_serialized_tensors()
    found = {id(owner) for owner in tensors}
    hidden = [weight.path for weight in part.weights if not {id(weight), id(weight.value)} & found]
    if hidden:
        raise errors.CheckpointError(
            f"{field}: {len(hidden)} weights of {name} are in no checkpoint, such as {hidden[0]}: "
            "their layers are in a list or a dictionary. Set each layer as an attribute as well."
        )


def _find_differences(parts: Mapping[str, keras.layers.Layer], path: str, field: str) -> list[str]:
    try:
        reader = tf.train.load_checkpoint(path)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise errors.CheckpointError(
            f"{field}: got {path!r}, which is no checkpoint: {checkpoint_fit.describe_error(error)}"
        ) from error
    saved = _SavedGraph(reader)
    differences = []
    for name, part in parts.items():
        root = saved.find(0, [name])
        if root is None:
            hint = "" if "." not in name else (
                " (the pretraining has no classifier of that name with an inner_dim)"
            )  # fmt: skip
            differences.append(f"{name}: in the model, not in the checkpoint{hint}")
            continue
        differences += _compare(name, part, saved, root)
    return differences


def _compare(name: str, part: keras.layers.Layer, saved: "_SavedGraph", root: int) -> list[str]:
    """Returns where a part differs from what was saved of it."""
    differences: list[str] = []
    seen: set[int] = set()
    checkpoint = tf.train.Checkpoint(part=part)
    tensors, *_ = checkpoint._saver._gather_serialized_tensors()
    for values in tensors.values():
        for key, value in values.items():
            if not key.startswith("part/") or not key.endswith(_SUFFIX):
                continue
            steps = key.removesuffix(_SUFFIX).split("/")[1:]
            label = ".".join([name, *steps])
            shape = list(checkpoint_fit.read_value(value).shape)
            node = saved.find(root, steps)
            found = None if node is None else saved.get_shape(node)
            if node is None or found is None:
                differences.append(f"{label}: in the model {shape}, not in the checkpoint")
                continue
            seen.add(node)
            if found != shape:
                differences.append(f"{label}: in the model {shape}, in the checkpoint {found}")
    for node, label in saved.walk(root, name):
        extra = saved.get_shape(node)
        if extra is not None and node not in seen:
            differences.append(f"{label}: in the checkpoint {extra}, not in the model")
    return sorted(differences)


class _SavedGraph:
    """The objects of a checkpoint and how they hang together."""

    def __init__(self, reader: Any) -> None:
        """Reads the graph."""
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))
        self._nodes = graph.nodes
        self._shapes = reader.get_variable_to_shape_map()

    def find(self, node: int, names: Sequence[str]) -> int | None:
        """Returns the object that a path leads to from another."""
        for name in names:
            children = {child.local_name: child.node_id for child in self._nodes[node].children}
            if name not in children:
                return None
            node = children[name]
        return node

    def get_shape(self, node: int) -> list[int] | None:
        """Returns the shape of a variable; None for other objects."""
        for attribute in self._nodes[node].attributes:
            if attribute.name == "VARIABLE_VALUE":
                shape = self._shapes.get(attribute.checkpoint_key)
                return None if shape is None else list(shape)
        return None

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
