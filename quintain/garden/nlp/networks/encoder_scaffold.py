"""Encoder whose embeddings and blocks can be replaced, by gin for instance.

Shapes: see `text_encoder`.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import gin_io
from quintain.nlp.modeling import layers
from quintain.nlp.modeling.layers import packed_rows
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization
from quintain.nlp.modeling.networks import text_encoder

_EMBEDDING_FIELDS = (
    "vocab_size",
    "type_vocab_size",
    "hidden_size",
    "max_seq_length",
    "initializer",
    "dropout_rate",
)


@keras.saving.register_keras_serializable("Text")
@gin_io.configurable
class EncoderScaffold(text_encoder.TextEncoder):
    """BERT's encoder, with embeddings and blocks of any classes.

    Source:
        Devlin et al., 2019 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        pooled_output_dim: int,
        pooler_layer_initializer: Any = text_encoder.INITIALIZER,
        embedding_cls: Any = None,
        embedding_cfg: Mapping[str, Any] | None = None,
        embedding_data: Any = None,
        num_hidden_instances: int = 1,
        hidden_cls: Any = layers.Transformer,
        hidden_cfg: Mapping[str, Any] | None = None,
        mask_cls: Any = layers.SelfAttentionMask,
        mask_cfg: Mapping[str, Any] | None = None,
        layer_norm_before_pooling: bool = False,
        return_all_layer_outputs: bool = False,
        dict_outputs: bool = False,
        layer_idx_as_attention_seed: bool = False,
        feed_layer_idx: bool = False,
        recursive: bool = False,
        **kwargs: Any,
    ) -> None:
        """Creates the layers and their variables.

        Raises:
            ConfigError: If a field of `embedding_cfg` is missing, or there are not as many blocks
                as `num_hidden_instances`.
        """
        network = _create(embedding_cls, embedding_cfg)
        if network is None:
            embedding = _read_embedding(embedding_cfg)
        else:
            embedding = {"hidden_size": network(network.inputs)[0].shape[-1]}
        initializer = keras.initializers.get(pooler_layer_initializer)
        super().__init__(
            embedding.get("vocab_size"),
            embedding["hidden_size"],
            initializer=embedding.get("initializer", initializer),
            max_sequence_length=embedding.get("max_seq_length", 0),
            type_vocab_size=embedding.get("type_vocab_size", 0),
            dropout_rate=embedding.get("dropout_rate", 0.0),
            dict_outputs=dict_outputs,
            return_all_encoder_outputs=return_all_layer_outputs,
            pooled_output_dim=pooled_output_dim,
            pooler_initializer=initializer,
            **kwargs,
        )
        self._keep_config(
            num_hidden_instances=num_hidden_instances,
            pooled_output_dim=pooled_output_dim,
            pooler_layer_initializer=keras.initializers.serialize(initializer),
            embedding_cls=network,
            embedding_cfg=embedding_cfg,
            layer_norm_before_pooling=layer_norm_before_pooling,
            return_all_layer_outputs=return_all_layer_outputs,
            dict_outputs=dict_outputs,
            layer_idx_as_attention_seed=layer_idx_as_attention_seed,
            **_name_classes({"hidden_cfg": hidden_cfg, "mask_cfg": mask_cfg}),
            **_name_class("hidden_cls", hidden_cls),
            **_name_class("mask_cls", mask_cls),
            **({"feed_layer_idx": True} if feed_layer_idx else {}),
            **({"recursive": True} if recursive else {}),
            **kwargs,
        )
        self._embedding_network = network
        self.__dict__["_embedding_data"] = embedding_data
        self.recursive = recursive
        self._mask_layer: Any = None if network is not None else _create(mask_cls, mask_cfg)
        hidden_cfg = hidden_cfg or {}
        blocks = []
        for index, one in enumerate(_list_classes(hidden_cls, num_hidden_instances)):
            more: dict[str, Any] = {"layer_idx": index} if feed_layer_idx else {}
            if layer_idx_as_attention_seed and "attention_cfg" in hidden_cfg:
                more["attention_cfg"] = {**hidden_cfg["attention_cfg"], "seed": index}
            blocks.append(_create(one, {**hidden_cfg, **more}))
        for index, block in enumerate(blocks):
            # Checkpoints follow attributes, and see no layers in lists.
            setattr(self, f"block_{index}", block)
        self._transformer_layers = blocks
        self._output_layer_norm = None
        if layer_norm_before_pooling:
            self._output_layer_norm = LayerNormalization(1e-12, name="final_layer_norm")
        # Blocks of any class get their weights when they are called.
        self(self.inputs)

    @override
    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None
    ) -> "EncoderScaffold":
        """Builds an encoder from what `get_config` returned, or from what was saved of it."""
        config = dict(config)
        for name in ("hidden_cls", "mask_cls"):
            if f"{name}_string" in config:
                config[name] = _find_class(config.pop(f"{name}_string"), custom_objects)
        for name in ("hidden_cfg", "mask_cfg"):
            if config.get(name):
                config[name] = {
                    key: _find_class(value, custom_objects) if key.endswith("_cls") else value
                    for key, value in config[name].items()
                }
        return super().from_config(config, custom_objects)

    @property
    @override
    def inputs(self) -> Any:
        """Keras' inputs of the model: those of the embeddings."""
        if self._embedding_network is not None:
            return self._embedding_network.inputs
        return super().inputs

    @property
    def embedding_network(self) -> Any:
        """The model that embeds the inputs.

        Raises:
            RuntimeError: If there is none: words are embedded as in BERT.
        """
        if self._embedding_network is None:
            raise RuntimeError(
                f"{self.name} has no embedding network; give one as `embedding_cls`."
            )
        return self._embedding_network

    @property
    def hidden_layers(self) -> list[Any]:
        """The blocks."""
        return self.transformer_layers

    @override
    def get_embedding_table(self) -> Any:
        """Returns the word embeddings, `[vocab_size, D]`.

        Raises:
            RuntimeError: If there is an embedding network without `embedding_data`.
        """
        if self._embedding_network is None:
            return super().get_embedding_table()
        if self._embedding_data is None:
            raise RuntimeError(
                f"{self.name} does not know the word embeddings of its embedding network; give "
                "them as `embedding_data`. A config does not hold them."
            )
        return self._embedding_data

    @override
    def _embed(
        self, inputs: Any, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor, packed_rows.PackedRows | None]:
        if self._embedding_network is None:
            return super()._embed(inputs, training)
        x, mask = self._embedding_network(inputs)
        return x, mask, None

    @override
    def _find_rows(self, mask: tf.Tensor, training: bool) -> packed_rows.PackedRows | None:
        return None if self.recursive else super()._find_rows(mask, training)

    @override
    def _mask(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        is_short = all(getattr(block, "takes_rows", False) for block in self._transformer_layers)
        if is_short and type(self._mask_layer) is layers.SelfAttentionMask:
            return super()._mask(x, mask)
        return self._mask_layer(x, mask)

    @override
    def _run_blocks(
        self, x: tf.Tensor, mask: tf.Tensor, rows: packed_rows.PackedRows | None
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        if self.recursive:
            outputs, state = [], None
            for block in self._transformer_layers:
                x, state = block([x, mask, state])
                outputs.append(x)
        else:
            outputs, _ = super()._run_blocks(x, mask, rows)
        if self._output_layer_norm is not None and outputs:
            outputs[-1] = self._output_layer_norm(outputs[-1])
        return outputs, []


def _create(given: Any, config: Mapping[str, Any] | None) -> Any:
    """Returns a layer of a class, which may be one of gin's; a layer, or None, as it is."""
    if given is None or isinstance(given, keras.layers.Layer):
        return given
    return given(**(config or {}))


def _read_embedding(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    missing = [name for name in _EMBEDDING_FIELDS if name not in (config or {})]
    if config is None or missing:
        raise errors.ConfigError(
            f"embedding_cfg: {', '.join(missing)} missing; without an embedding_cls it needs "
            f"{', '.join(_EMBEDDING_FIELDS)}."
        )
    return config


def _list_classes(hidden_cls: Any, count: int) -> Sequence[Any]:
    if not isinstance(hidden_cls, list | tuple):
        return [hidden_cls] * count
    if len(hidden_cls) != count:
        raise errors.ConfigError(
            f"hidden_cls: got a list of {len(hidden_cls)}, expected num_hidden_instances={count}."
        )
    return hidden_cls


def _name_class(name: str, given: Any) -> dict[str, Any]:
    if inspect.isclass(given):
        return {f"{name}_string": keras.saving.get_registered_name(given)}
    return {name: given}


def _name_classes(configs: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Returns configs that hold classes by their registered names."""
    return {
        name: {
            key: keras.saving.get_registered_name(value) if inspect.isclass(value) else value
            for key, value in config.items()
        }
        for name, config in configs.items()
        if config
    }


def _find_class(name: Any, custom_objects: Mapping[str, Any] | None) -> Any:
    if not isinstance(name, str):
        return name
    found = keras.saving.get_registered_object(name, custom_objects=custom_objects)
    if found is None:
        raise errors.ConfigError(
            f"{name!r} is registered nowhere; decorate the class with "
            "`keras.saving.register_keras_serializable`."
        )
    return found
