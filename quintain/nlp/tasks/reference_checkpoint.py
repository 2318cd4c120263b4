"""Loading of checkpoints of the TensorFlow Model Garden, with a report of what was loaded."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

import keras
import numpy as np

from quintain import errors
from quintain.checkpoints import checkpoint_fit, saved_graph
from quintain.config import yaml_io
from quintain.files import file_io, file_paths
from quintain.nlp.modeling import reference_layout, reference_weights

_MARK: Final = "/_intermediate_dense/kernel/"
"""In a key of every Transformer of the reference; no layer of ours has weights of that name."""

_FIRST_RELEASE_MARK: Final = "bert/embeddings/word_embeddings"
_SLOT: Final = "/.OPTIMIZER_SLOT/"
_STATES: Final = ("global_step", "save_counter", "train_loss", saved_graph.OBJECT_GRAPH)
_SHOWN: Final = 8
_PARAMS_FILE: Final = "params.yaml"
"""Beside checkpoints of the reference's trainer: the config that they were trained with."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Report:
    """Loaded and skipped variables of a checkpoint."""

    path: str
    """Prefix of the reference's checkpoint."""

    loaded: Mapping[str, tuple[str, ...]]
    """Our weights, and those of the checkpoint that each was made of."""

    new: Mapping[str, tuple[str, ...]]
    """Parts of the model that the checkpoint lacks, and their weights, which are new."""

    unused: tuple[str, ...]
    """Weights of the checkpoint that no part of the model was made of."""

    num_states: int
    """Values of the checkpoint that are no weights: the optimizer's, and the step."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain values, for JSON."""
        return {
            "checkpoint": self.path,
            "loaded": {name: list(sources) for name, sources in self.loaded.items()},
            "new": {name: list(weights) for name, weights in self.new.items()},
            "unused": list(self.unused),
            "states_not_loaded": self.num_states,
        }

    def summarize(self) -> str:
        """Returns the report in one line."""
        new = ", ".join(f"{name} ({len(weights)})" for name, weights in self.new.items())
        used = sum(map(len, self.loaded.values()))
        return (
            f"{len(self.loaded)} weights loaded from {used} of the reference's checkpoint "
            f"{self.path}; new weights: {new or 'none'}; {len(self.unused)} of the checkpoint's "
            f"weights and {self.num_states} states of its training not used."
        )


def is_reference(path: str, field: str) -> bool:
    """True if a checkpoint is one of the TensorFlow Model Garden; `field` names it in errors.

    Raises:
        CheckpointError: If there is no checkpoint, or it is of the first release of BERT.
    """
    keys = saved_graph.open_reader(path, field).get_variable_to_shape_map()
    if _FIRST_RELEASE_MARK in keys:
        raise errors.CheckpointError(
            f"{field}: got {path!r}, a checkpoint of BERT's first release, for TensorFlow 1. "
            "Convert it with the Model Garden's `official/nlp/tools/"
            "tf2_encoder_checkpoint_converter.py` first, and give what that writes."
        )
    return any(_MARK in key for key in keys)


def load_if_reference(
    model: keras.Model,
    path: str,
    field: str,
    *,
    required: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
) -> bool:
    """Loads a model, as `load_model` does, if a checkpoint is one of the reference.

    Returns:
        Whether it was.

    Raises:
        CheckpointError: As for `load_model` and `is_reference`.
    """
    if not is_reference(checkpoint_fit.find_newest(path, field), field):
        return False
    load_model(model, path, field, required=required, exclude=exclude)
    return True


def load_model(
    model: keras.Model,
    path: str,
    field: str,
    *,
    required: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
) -> Report:
    """Loads a model from a checkpoint of the reference.

    Args:
        model: A built translation model, BERT pretrainer or BERT classifier.
        path: Prefix of a checkpoint, or a directory of checkpoints, of which the newest is taken.
        field: What errors call the path.
        required: Names of the parts that the checkpoint must have; the others stay new where it
            lacks them. None requires all.
        exclude: Patterns of variables that stay new (`checkpoint_fit.find_excluded`).

    Raises:
        CheckpointError: If a required part is missing, or any part fits in part only.
        ConfigError: If a pattern matches nothing.
    """
    try:
        parts = reference_layout.list_parts(model)
    except errors.CheckpointError as error:
        raise errors.CheckpointError(f"{field}: {path!r} can't be loaded: {error}") from error
    excluded = checkpoint_fit.find_excluded(model, exclude)
    return _load(parts, checkpoint_fit.find_newest(path, field), field, required, excluded)


def load_parts(
    parts: Mapping[str, keras.layers.Layer],
    path: str,
    field: str,
    excluded: Set[int] = frozenset(),
) -> Report:
    """Loads an encoder, and dense layers of classifiers, from a checkpoint of the reference.

    Args:
        parts: `encoder`, and dense layers by the names that they have in the checkpoint, such as
            `next_sentence.pooler_dense`.
        path: Prefix of a checkpoint.
        field: What errors call it.
        excluded: Variables that stay as they are, by `id`.

    Raises:
        CheckpointError: If the checkpoint lacks a part, or it does not fit.
    """
    try:
        mapped = [
            reference_layout.map_encoder(part)
            if name == "encoder"
            else reference_layout.map_pooler_dense(part, name)
            for name, part in parts.items()
        ]
    except errors.CheckpointError as error:
        raise errors.CheckpointError(f"{field}: {path!r} can't be loaded: {error}") from error
    return _load(mapped, path, field, None, excluded)


def _load(
    parts: Sequence[reference_layout.Part],
    path: str,
    field: str,
    required: Sequence[str] | None,
    excluded: Set[int],
) -> Report:
    saved = saved_graph.SavedGraph(saved_graph.open_reader(path, field))
    left_out = {part.name for part in parts if not _list_kept(part.layouts[0], excluded)}
    chosen = {
        part.name: None if part.name in left_out else _choose_layout(part, saved) for part in parts
    }
    lacking = [name for name, layout in chosen.items() if layout is None and name not in left_out]
    present = [layout for layout in chosen.values() if layout is not None]
    differences = [
        f"{name}: in the model, not in the checkpoint"
        for name in lacking
        if required is None or name in required
    ]
    for layout in present:
        differences += _find_lacking(layout, saved, excluded)
    differences += _find_extra(present, saved)
    differences += _compare_settings(parts, path)
    if differences:
        raise errors.CheckpointError(_describe(differences, path, field))
    loaded, keys = {}, set()
    for layout in present:
        for weight in _list_kept(layout, excluded):
            sources = [_get_key(layout, source, saved) for source in weight.sources]
            values = [np.reshape(saved.read(key), weight.reshaped) for key in sources]
            weight.variable.assign(np.concatenate(values, axis=-1))
            loaded[weight.name] = tuple(checkpoint_fit.plain_key(key) for key in sources)
            keys.update(sources)
    rest = [key for key in sorted(saved.shapes) if key not in keys]
    unused = tuple(checkpoint_fit.plain_key(key) for key in rest if not _is_state(key))
    new = {
        part.name: tuple(
            weight.name for weight in part.layouts[0].weights if weight.name not in loaded
        )
        for part in parts
    }
    new = {name: weights for name, weights in new.items() if weights}
    report = Report(path, loaded, new, unused, len(rest) - len(unused))
    _logger.log(logging.WARNING if lacking else logging.INFO, "%s: %s", field, report.summarize())
    return report


def _list_kept(
    layout: reference_layout.Layout, excluded: Set[int]
) -> list[reference_weights.Weight]:
    """Returns the weights of a part that are to be loaded."""
    return [weight for weight in layout.weights if id(weight.variable) not in excluded]


def _describe(differences: Sequence[str], path: str, field: str) -> str:
    return (
        f"{field}: the reference's checkpoint {path!r} does not fit this model:\n"
        f"{checkpoint_fit.list_some(differences, _SHOWN)}\n"
        "Give task.model the sizes that it was trained with, and the task its vocabulary. Nothing "
        "was loaded."
    )


def _choose_layout(
    part: reference_layout.Part, saved: saved_graph.SavedGraph
) -> reference_layout.Layout | None:
    """Returns the layout that a checkpoint has most weights of; None if it has none of any."""
    layouts: Sequence[reference_layout.Layout] = part.layouts
    if part.dense_name is not None:
        layouts = list(_keep_named(part, saved))
    counts = [_count_found(layout, saved) for layout in layouts]
    best = max(counts, default=0)
    return layouts[counts.index(best)] if best else None


def _keep_named(
    part: reference_layout.Part, saved: saved_graph.SavedGraph
) -> Iterator[reference_layout.Layout]:
    """Yields those places of a classifier that, by its name if there are names, are its own."""
    names = saved.list_children(saved_graph.ROOT)
    if not any(name.endswith(".pooler_dense") for name in names):
        yield part.layouts[0]
        return
    dense = names.get(part.dense_name or "")
    for layout in part.layouts:
        if dense is not None and _find(layout, "dense", saved) == dense:
            yield layout


def _count_found(layout: reference_layout.Layout, saved: saved_graph.SavedGraph) -> int:
    return sum(
        _find(layout, source, saved) is not None
        for weight in layout.weights
        for source in weight.sources
    )


def _find(
    layout: reference_layout.Layout, source: str, saved: saved_graph.SavedGraph
) -> int | None:
    # The name of a classifier's dense layer has a dot, and is one step.
    steps = [step for step in f"{layout.root}/{source}".split("/") if step]
    return saved.find(saved_graph.ROOT, steps)


def _get_key(layout: reference_layout.Layout, source: str, saved: saved_graph.SavedGraph) -> str:
    node = _find(layout, source, saved)
    key = None if node is None else saved.get_key(node)
    if key is None:
        raise AssertionError(f"{source} was compared before")
    return key


def _find_lacking(
    layout: reference_layout.Layout, saved: saved_graph.SavedGraph, excluded: Set[int]
) -> Iterator[str]:
    """Yields the weights of a part that a checkpoint lacks, or has in another shape."""
    for weight in _list_kept(layout, excluded):
        for source in weight.sources:
            node = _find(layout, source, saved)
            shape = None if node is None else saved.get_shape(node)
            path = "/".join(filter(None, (layout.root, source)))
            expected = list(weight.source_shape)
            if shape is None:
                yield f"{weight.name}: no {path} in the checkpoint"
            elif shape != expected:
                yield f"{weight.name}: expected {path} as {expected}, in the checkpoint {shape}"


def _find_extra(
    layouts: Sequence[reference_layout.Layout], saved: saved_graph.SavedGraph
) -> Iterator[str]:
    """Yields the weights of a checkpoint's parts that our parts do not have."""
    seen = {
        _find(layout, source, saved)
        for layout in layouts
        for weight in layout.weights
        for source in weight.sources
    }
    for layout in layouts:
        root = _find(layout, "", saved)
        if root is None:
            raise AssertionError(f"{layout.root} was found before")
        for node, label in saved.walk(root, ""):
            path = (layout.root + label.replace(".", "/")).lstrip("/")
            shape = saved.get_shape(node)
            if shape is not None and node not in seen and not _is_state(f"{path}/"):
                yield f"{path}: in the checkpoint {shape}, not in the model"


def _compare_settings(parts: Sequence[reference_layout.Part], path: str) -> Iterator[str]:
    """Yields what parts compute in another way than `params.yaml` beside a checkpoint says."""
    params_path = file_paths.join(file_paths.dirname(path), _PARAMS_FILE)
    if not file_io.exists(params_path):
        return
    with file_io.open(params_path) as file:
        text = file.read()
    try:
        params = yaml_io.load_text(text, params_path)
    except errors.ConfigError as error:
        _logger.warning("What no weight tells, such as norm_first, is not compared: %s", error)
        return
    for part in parts:
        for name, value in part.settings.items():
            found, steps = params, []
            for step in ("task", "model", *name.split(".")):
                found = found if isinstance(found, Mapping) else {}
                steps.append(str(found.get("type", "bert")) if step == "*" else step)
                found = found.get(steps[-1])
            if found is not None and found != value:
                yield f"{'.'.join(steps)}: got {value!r}, but {params_path} says {found!r}"


def _is_state(key: str) -> bool:
    """True if a key is of a value that is no weight."""
    return _SLOT in key or key.startswith(("optimizer/", *_STATES))
