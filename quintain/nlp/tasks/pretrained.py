"""Loads parts of a model from a run of pretraining, and says what does not fit."""

from collections.abc import Mapping

import keras
import tensorflow as tf

from quintain import errors
from quintain.core.saving import checkpoint_fit, saved_graph
from quintain.nlp.tasks import reference_checkpoint
from quintain.orbit import background_checkpointer, literal_paths


def restore_parts(parts: Mapping[str, keras.layers.Layer], path: str, field: str) -> None:
    """Restores layers by the names that they have in a checkpoint.

    Args:
        parts: Built layers by name.
        path: Prefix of a checkpoint, or a directory of checkpoints, of which the newest is taken.
        field: The config field that gives the path, for messages.

    Raises:
        CheckpointError: If there is no checkpoint, it lacks a part, or a part has other shapes.
    """
    path = checkpoint_fit.find_newest(path, field)
    if reference_checkpoint.is_reference(path, field):
        reference_checkpoint.load_parts(parts, path, field)
        return
    differences = _find_differences(parts, path, field)
    if differences:
        raise errors.CheckpointError(
            f"{field}: the checkpoint {path!r} does not fit this model:\n"
            f"{checkpoint_fit.list_some(differences)}\n"
            "Give task.model.encoder the sizes it was pretrained with (`params.yaml` beside the "
            "checkpoint), and the same vocabulary."
        )
    for name, part in parts.items():
        _check_visible(name, part, field)
    status = tf.train.Checkpoint(**parts).read(literal_paths.checkpoint(path))
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
    saved = saved_graph.SavedGraph(saved_graph.open_reader(path, field))
    differences = []
    for name, part in parts.items():
        root = saved.find(saved_graph.ROOT, [name])
        if root is None:
            hint = "" if "." not in name else (
                " (the pretraining has no classifier of that name with an inner_dim)"
            )  # fmt: skip
            differences.append(f"{name}: in the model, not in the checkpoint{hint}")
            continue
        differences += _compare(name, part, saved, root)
    return differences


def _compare(
    name: str, part: keras.layers.Layer, saved: saved_graph.SavedGraph, root: int
) -> list[str]:
    """Returns where a part differs from what was saved of it."""
    differences: list[str] = []
    seen: set[int] = set()
    checkpoint = tf.train.Checkpoint(part=part)
    tensors, *_ = checkpoint._saver._gather_serialized_tensors()
    for values in tensors.values():
        for key, value in values.items():
            if not key.startswith("part/") or not key.endswith(checkpoint_fit.VARIABLE_SUFFIX):
                continue
            steps = checkpoint_fit.plain_key(key).split("/")[1:]
            label = ".".join([name, *steps])
            shape = list(background_checkpointer.read_value(value).shape)
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
