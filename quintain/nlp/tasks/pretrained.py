"""Loading of parts of a model from a run of pretraining."""

from collections.abc import Mapping, Set

import keras
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit, saved_graph
from quintain.nlp.tasks import reference_checkpoint, vocabulary
from quintain.settings import config_definitions as cfg


def restore_encoder(
    model: keras.Model,
    config: cfg.TaskConfig,
    vocabulary_path: str,
    *,
    field: str,
    others: Mapping[str, keras.layers.Layer] | None = None,
) -> None:
    """Restores the encoder of a model from `config.init_checkpoint`, if that is set.

    Args:
        model: The model, whose `checkpoint_items` have the encoder.
        config: The task's config.
        vocabulary_path: Vocabulary that the run has; may be empty.
        field: The config field that gives it, for messages.
        others: Further layers to restore, by their names in the checkpoint.

    Raises:
        CheckpointError: If there is no checkpoint, it lacks a part, or a part has other shapes.
        ConfigError: If it was trained with another vocabulary, or a pattern of
            `task.init_exclude` matches nothing.
    """
    if not config.init_checkpoint:
        return
    if vocabulary_path:
        vocabulary.check_same_copy(vocabulary_path, config.init_checkpoint, field=field)
    restore_parts(
        {"encoder": model.checkpoint_items["encoder"], **(others or {})},
        config.init_checkpoint,
        "task.init_checkpoint",
        checkpoint_fit.name_variables(model),
        checkpoint_fit.find_excluded(model, config.init_exclude),
    )


def restore_parts(
    parts: Mapping[str, keras.layers.Layer],
    path: str,
    field: str,
    names: Mapping[int, str] | None = None,
    excluded: Set[int] = frozenset(),
) -> None:
    """Restores built layers by the names that they have in a checkpoint.

    Args:
        parts: The layers by name.
        path: Prefix of a checkpoint, or a directory of checkpoints, of which the newest is taken.
        field: The config field that gives the path, for messages.
        names: What to call variables, by `id`. None takes their paths.
        excluded: Variables that stay as they are, by `id`.

    Raises:
        CheckpointError: If there is no checkpoint, it lacks a part, or a part has other shapes.
    """
    path = checkpoint_fit.find_newest(path, field)
    if reference_checkpoint.is_reference(path, field):
        reference_checkpoint.load_parts(parts, path, field, excluded)
        return
    saved = saved_graph.SavedGraph(saved_graph.open_reader(path, field))
    comparison = checkpoint_fit.Comparison(parts, saved, names)
    differences = [each.text for each in comparison.list_lacking(excluded)]
    for name in parts:
        root = saved.find(saved_graph.ROOT, [name])
        if root is not None:
            differences += [each.text for each in comparison.list_extra(root)]
        elif "." in name:
            differences.insert(
                0, f"{name}: the pretraining has no classifier of that name with an inner_dim"
            )
    if differences:
        raise errors.CheckpointError(
            f"{field}: the checkpoint {path!r} does not fit this model:\n"
            f"{checkpoint_fit.list_some(differences)}\n"
            "Give task.model.encoder the sizes it was pretrained with (`params.yaml` beside the "
            "checkpoint), and the same vocabulary."
        )
    for name, part in parts.items():
        _check_visible(name, part, field)
    checkpoint_fit.read_items(checkpoint_fit.leave_out(parts, excluded), path)


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
