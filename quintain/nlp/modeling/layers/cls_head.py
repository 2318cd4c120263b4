"""The head of a classifier: a dense layer of its own, where there is none in the encoder.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the encoder
    C  classes
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override


class ClassificationHead(keras.layers.Layer):
    """Predicts classes from one position of a sequence, or from a vector."""

    def __init__(
        self,
        inner_dim: int,
        num_classes: int,
        cls_token_idx: int = 0,
        activation: str = "tanh",
        dropout_rate: float = 0.0,
        initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        """Creates the layers.

        Args:
            inner_dim: Width of a dense layer before the output; 0 for none.
            num_classes: Classes, or 1 for a number.
            cls_token_idx: Position of a sequence to classify by.
            activation: Keras' name of the dense layer's activation.
            dropout_rate: Share of values that training drops before the output.
            initializer: Keras' initializer of the kernels.
            **kwargs: Arguments of a Keras layer.
        """
        super().__init__(**kwargs)
        self.inner_dim = inner_dim
        self.cls_token_idx = cls_token_idx
        initializer = keras.initializers.get(initializer)
        self.dense = (
            keras.layers.Dense(
                inner_dim, activation, kernel_initializer=initializer, name="pooler_dense"
            )
            if inner_dim
            else None
        )
        self.dropout = keras.layers.Dropout(dropout_rate)
        self.out_proj = keras.layers.Dense(
            num_classes, kernel_initializer=_copy(initializer), name="logits"
        )

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts that another head may start from: its `pooler_dense`, if it has one."""
        return {} if self.dense is None else {"pooler_dense": self.dense}

    @override
    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        if self.dense is not None:
            self.dense.build((None, width))
        self.out_proj.build((None, self.inner_dim or width))

    @override
    def call(self, features: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Predicts.

        Args:
            features: A sequence `[B, S, D]`, or vectors `[B, D]`.
            training: Whether to apply dropout.

        Returns:
            Logits `[B, C]`.
        """
        x = features[:, self.cls_token_idx] if features.shape.rank == 3 else features  # [B, D]
        x = x if self.dense is None else self.dense(x)
        return self.out_proj(self.dropout(x, training=training))


def freeze_pooler(encoder: keras.Model) -> None:
    """Takes the pooler of an encoder, where nothing uses its output, out of training."""
    pooler = getattr(encoder, "pooler", None)
    if isinstance(pooler, keras.layers.Layer):
        pooler.trainable = False


def _copy(initializer: keras.initializers.Initializer) -> keras.initializers.Initializer:
    """Returns an initializer that draws other numbers for another layer."""
    return initializer.clone()
