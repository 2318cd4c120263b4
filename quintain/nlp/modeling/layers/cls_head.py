"""Heads of classifiers.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the encoder
    C  classes
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import layer_arguments
from quintain.reference import reference_names

__getattr__ = reference_names.refusing(__name__)


class _PoolingHead(keras.layers.Layer):
    """A dense layer above one position, where there is one, and dropout."""

    def __init__(self, given: layer_arguments.LayerArguments, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._given = given
        self.inner_dim = given.inner_dim
        self.cls_token_idx = given.cls_token_idx
        self.dropout_rate = given.dropout_rate
        self.activation = tf_utils.get_activation(given.activation)
        self.initializer = given.initializer
        self.dense = None
        if self.inner_dim:
            self.dense = keras.layers.Dense(
                self.inner_dim,
                self.activation,
                kernel_initializer=tf_utils.clone_initializer(self.initializer),
                name="pooler_dense",
            )
        self.dropout = keras.layers.Dropout(self.dropout_rate)

    def build_output(self, num_classes: int, name: str) -> keras.layers.Dense:
        """Returns the last layer of a classifier."""
        initializer = tf_utils.clone_initializer(self.initializer)
        return keras.layers.Dense(num_classes, kernel_initializer=initializer, name=name)

    def build_parts(self, input_shape: Any, outputs: Sequence[keras.layers.Dense]) -> None:
        """Creates the weights."""
        width = input_shape[-1]
        if self.dense is not None:
            self.dense.build((None, width))
        for output in outputs:
            output.build((None, self.inner_dim or width))
        self.built = True

    def pool(self, features: tf.Tensor) -> tf.Tensor:
        """Returns `[B, inner_dim]` of a sequence, or the features where there is no inner layer."""
        return features if self.dense is None else self.dense(features[:, self.cls_token_idx])

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts that another head may start from: its `pooler_dense`, if it has one."""
        return {} if self.dense is None else {self.dense.name: self.dense}

    @override
    def get_config(self) -> dict[str, Any]:
        activation = keras.activations.serialize(self.activation)
        return {**super().get_config(), **self._given.to_config(), "activation": activation}

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Returns the layer that a config describes; `custom_objects` is not used."""
        return super().from_config(config)


@keras.saving.register_keras_serializable(package="Text")
class ClassificationHead(_PoolingHead):
    """Predicts classes from one position of a sequence, or from vectors."""

    def __init__(
        self,
        inner_dim: int,
        num_classes: int,
        cls_token_idx: int = 0,
        activation: Any = "tanh",
        dropout_rate: float = 0.0,
        initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(layer_arguments.LayerArguments(locals()), **kwargs)
        self.num_classes = num_classes
        self.out_proj = self.build_output(num_classes, "logits")

    @override
    def build(self, input_shape: Any) -> None:
        self.build_parts(input_shape, [self.out_proj])

    @override
    def call(
        self, features: tf.Tensor, only_project: bool = False, training: bool | None = None
    ) -> tf.Tensor:
        """Predicts logits `[B, C]`.

        Args:
            features: A sequence `[B, S, D]` where there is an inner layer, else vectors `[B, D]`.
            only_project: Whether to return what the inner layer gives, `[B, inner_dim]`.
            training: Whether to apply dropout.
        """
        x = self.pool(features)
        return x if only_project else self.out_proj(self.dropout(x, training=training))


@keras.saving.register_keras_serializable(package="Text")
class MultiClsHeads(_PoolingHead):
    """Several classifiers above one dense layer."""

    def __init__(
        self,
        inner_dim: int,
        cls_list: Sequence[tuple[str, int]],
        cls_token_idx: int = 0,
        activation: Any = "tanh",
        dropout_rate: float = 0.0,
        initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(layer_arguments.LayerArguments(locals()), **kwargs)
        self.cls_list = cls_list
        self.out_projs = [self.build_output(count, name) for name, count in cls_list]

    @override
    def build(self, input_shape: Any) -> None:
        self.build_parts(input_shape, self.out_projs)

    @override
    def call(
        self, features: tf.Tensor, only_project: bool = False, training: bool | None = None
    ) -> Any:
        """Predicts as `ClassificationHead`: logits `[B, C]` of each classifier by its name."""
        x = self.pool(features)
        if only_project:
            return x
        x = self.dropout(x, training=training)
        return {layer.name: layer(x) for layer in self.out_projs}

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts that another head may start from: `pooler_dense`, and each classifier."""
        return {**super().checkpoint_items, **{layer.name: layer for layer in self.out_projs}}


@keras.saving.register_keras_serializable(package="Text")
class PerQueryDenseHead(keras.layers.Layer):
    """A dense layer of its own for each of a sequence's positions.

    Source:
        Liu et al., 2021 (https://arxiv.org/abs/2110.08426).
    """

    def __init__(
        self,
        num_queries: int,
        features: int,
        use_bias: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        self._given = given
        self.num_queries = num_queries
        self.features = features
        self.use_bias = use_bias
        self.kernel_initializer = given.kernel_initializer

    @override
    def build(self, input_shape: Any) -> None:
        self.hidden_size = input_shape[-1]
        self.kernel = self.add_weight(
            shape=(self.num_queries, self.hidden_size, self.features),
            initializer=self.kernel_initializer,
            name="kernel",
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(self.num_queries, self.features), initializer="glorot_uniform", name="bias"
            )

    @override
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps `[B, num_queries, D]` to `[B, num_queries, features]`."""
        outputs = tf.einsum("bqh,qhf->bqf", inputs, tf.convert_to_tensor(self.kernel))
        return outputs if self.bias is None else outputs + tf.convert_to_tensor(self.bias)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Returns the layer that a config describes; `custom_objects` is not used."""
        return super().from_config(config)
