"""Parts of a pretrained model that are trained: frozen weights, low-rank adapters, int8."""

import fnmatch
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.checkpoints import checkpoint_fit, checkpoint_state
from quintain.hub import configs, presets
from quintain.modeling import activations


def find_backbone(model: keras.Model) -> Any:
    """Returns the part of a model that comes from the preset."""
    hub = presets.import_keras_hub()
    return next(one for one in model._flatten_layers() if isinstance(one, hub.models.Backbone))


def prepare(model: keras.Model, config: configs.ModelConfig) -> None:
    """Freezes, quantizes and adapts a new model as its config says.

    Checkpoints of the model then hold only what differs from the preset, and the hash of the rest.

    Raises:
        ConfigError: If a pattern matches nothing, or a layer takes no adapter.
    """
    backbone = find_backbone(model)
    for layer in backbone._flatten_layers():
        # For the way back KerasHub's keeps five tensors as wide as the layer, this one keeps one.
        if getattr(getattr(layer, "activation", None), "__name__", "") == "gelu_approximate":
            layer.activation = activations.approximate_gelu
    loses_some = config.load_weights and (config.lora.rank or config.frozen)
    digest = presets.hash_variables(backbone.weights) if loses_some else ""
    if config.quantization == "int8":
        backbone.quantize(
            "int8", filters=lambda layer: type(layer).quantize is not keras.Layer.quantize
        )
    if config.lora.rank:
        _adapt(backbone, config.lora)
    _freeze(model, config.frozen)
    if loses_some:
        base = {id(one) for one in backbone.variables}
        kept = [one for one in model.variables if one.trainable or id(one) not in base]
        keep_only(model, kept, digest, config.preset)


def _adapt(backbone: Any, config: configs.LoraConfig) -> None:
    patterns = config.layers or tuple(backbone.default_lora_layer_names())
    layers = [one for one in backbone._flatten_layers(include_self=False) if one.weights]
    matched = {
        pattern: [
            one
            for one in layers
            if hasattr(one, "enable_lora")
            and any(fnmatch.fnmatchcase(name, pattern) for name in (one.name, one.path))
        ]
        for pattern in patterns
    }
    missing = [pattern for pattern, found in matched.items() if not found]
    if not any(matched.values()) or (config.layers and missing):
        known = sorted({one.name for one in layers if hasattr(one, "enable_lora")})
        raise errors.ConfigError(
            f"task.model.lora.layers: {', '.join(map(repr, missing))} matches no layer that takes "
            f"adapters. Those of this preset: {errors.enumerate_some(known)}."
        )
    for one in layers:
        one.trainable = False
    for one in {id(each): each for found in matched.values() for each in found}.values():
        one.trainable = True
        one.enable_lora(config.rank, lora_alpha=config.alpha or config.rank)
        for variable in one.variables:  # The bias stays what it is.
            variable.trainable = "lora_kernel" in variable.name or "lora_embed" in variable.name


def _freeze(model: keras.Model, patterns: Sequence[str]) -> None:
    names = _name_variables(model)
    for pattern in patterns:
        found = [one for name, one in names.items() if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            known = list(names)
            raise errors.ConfigError(
                f"task.model.frozen: {pattern!r} matches no variable of the model."
                f"{errors.suggest(pattern, known)} Its variables: {errors.enumerate_some(known)}."
            )
        for variable in found:
            variable.trainable = False


def _name_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the variables by path, those of the preset below `backbone`, others below `head`."""
    base = {id(one) for one in find_backbone(model).variables}
    paths = checkpoint_fit.name_variables(model)
    names: dict[str, keras.Variable] = {}
    for variable in model.variables:
        name = f"{'backbone' if id(variable) in base else 'head'}/{paths[id(variable)]}"
        while name in names:
            name += "'"
        names[name] = variable
    return names


def keep_only(
    model: keras.Model, variables: Sequence[keras.Variable], digest: str, preset: str
) -> None:
    """Says which variables of a model go into its checkpoints.

    Args:
        model: The model.
        variables: Those that go.
        digest: Hash of the others, which is kept with them and compared on restoring.
        preset: Where the others come from, for messages.
    """
    states = {id(generator.state) for generator in checkpoint_state.seed_generators(model)}
    wanted = {id(one) for one in variables} - states
    kept: dict[str, Any] = {"preset": _PresetMark(digest, preset)}
    kept |= {name: one for name, one in _name_variables(model).items() if id(one) in wanted}
    # A function, because Keras would take the variables of a mapping for the model's own.
    model.find_kept_variables = lambda: kept


class _PresetMark(tf.train.experimental.PythonState):
    """The hash of what a checkpoint leaves to the preset."""

    def __init__(self, digest: str, preset: str) -> None:
        self._digest = digest
        self._preset = preset
        self._revision = presets.find_revision(preset)

    @override
    def serialize(self) -> bytes:
        return f"{self._digest} {self._revision}".rstrip().encode()

    @override
    def deserialize(self, string_value: bytes) -> None:
        digest, _, revision = string_value.decode().partition(" ")
        if digest != self._digest:
            moved = f" It was revision {revision}, and is {self._revision}." if revision else ""
            raise errors.CheckpointError(
                f"task.model.preset: {self._preset!r} has other weights than when the checkpoint "
                "was trained, which holds only what was trained beside them."
                f"{moved} Give the preset as it was, or another model_dir."
            )


def list_adapted(model: keras.Model) -> Iterator[Any]:
    """Yields the layers that have an adapter."""
    for layer in model._flatten_layers():
        if getattr(layer, "lora_enabled", False):
            yield layer


def merge(model: keras.Model, plain: keras.Model) -> None:
    """Gives a model of the same preset without adapters what another one has learnt.

    Args:
        model: The trained model, with adapters.
        plain: A new one, with the weights of the preset.
    """
    for old, new in zip(model._flatten_layers(), plain._flatten_layers(), strict=True):
        if getattr(old, "lora_enabled", False):
            _merge_layer(old, new)
    learnt = _name_variables(model)
    base = {id(one) for one in find_backbone(plain).variables}
    for name, variable in _name_variables(plain).items():
        if name in learnt and (learnt[name].trainable or id(variable) not in base):
            variable.assign(learnt[name])


def _merge_layer(old: Any, new: Any) -> None:
    is_table = hasattr(old, "lora_embeddings_a")
    first = old.lora_embeddings_a if is_table else old.lora_kernel_a
    second = old.lora_embeddings_b if is_table else old.lora_kernel_b
    target = new._embeddings if is_table else new._kernel
    delta = keras.ops.matmul(first, second) * (old.lora_alpha / old.lora_rank)
    target.assign(target + keras.ops.cast(delta, target.dtype))


def count_trained(model: keras.Model) -> tuple[int, int]:
    """Returns how many numbers of a model are trained, and how many it has."""
    trained = sum(int(np.prod(one.shape)) for one in model.trainable_variables)
    return trained, sum(int(np.prod(one.shape)) for one in model.variables)
