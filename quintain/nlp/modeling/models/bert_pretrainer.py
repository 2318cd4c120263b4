"""BERT in pretraining: predicts masked words, and whether one sentence follows another.

Shapes:
    B  examples in the batch
    S  positions
    M  masked positions
    D  width of the model
    V  vocabulary size
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling import activations
from quintain.nlp.modeling.layers import cls_head
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization


class BertPretrainer(keras.Model):
    """An encoder with a head for masked words, tied to its embeddings, and classifiers.

    Source:
        Devlin et al., 2019, section 3.1 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        encoder: keras.Model,
        cls_heads: Sequence[cls_head.ClassificationHead] = (),
        mlm_activation: str = "gelu",
        **kwargs: Any,
    ) -> None:
        """Creates the heads.

        Args:
            encoder: Gives `sequence_output` and `pooled_output`, and has `get_embedding_table`.
            cls_heads: Classifiers, each with its name: on top of the pooled output or, where they
                have a dense layer of their own, of one position.
            mlm_activation: Keras' name of the activation in the head for masked words; `gelu` is
                approximated by tanh.
            **kwargs: Arguments of a Keras model.
        """
        super().__init__(**kwargs)
        self.encoder = encoder
        table = encoder.get_embedding_table()
        vocab_size, width = table.shape
        self.transform = keras.layers.Dense(
            width, activations.get_approximate(mlm_activation), name="mlm_transform"
        )
        self.transform_norm = LayerNormalization(1e-12)
        self.output_bias = self.add_weight(
            shape=(vocab_size,), initializer="zeros", autocast=False, name="mlm_output_bias"
        )
        self.head_layers = {head.name: head for head in cls_heads}
        for name, head in self.head_layers.items():
            # Checkpoints follow attributes, and see no layers in dictionaries.
            setattr(self, f"{name}_head", head)
        if all(head.inner_dim for head in cls_heads):
            cls_head.freeze_pooler(encoder)
        self._width = width

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        parts: dict[str, Any] = {"encoder": self.encoder}
        for head in self.head_layers.values():
            for name, part in head.checkpoint_items.items():
                parts[f"{head.name}.{name}"] = part
        return parts

    @override
    def build(self, input_shape: Any = None) -> None:
        """Builds encoder and heads; sizes do not depend on the input."""
        self.encoder.build()
        self.transform.build((None, self._width))
        self.transform_norm.build((None, self._width))
        for head in self.head_layers.values():
            head.build((None, self._width))
        self.built = True

    @override
    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """Predicts.

        Args:
            inputs: Those of the encoder, and `masked_lm_positions` `[B, M]`; without them there are
                no `mlm_logits`.
            training: Whether to apply dropout.

        Returns:
            `mlm_logits` `[B, M, V]` float32, the logits `[B, classes]` of each classifier by its
            name, and what the encoder gives.
        """
        outputs = dict(self.encoder(inputs, training=training))
        if "masked_lm_positions" in inputs:
            outputs["mlm_logits"] = self._predict_words(
                outputs["sequence_output"], inputs["masked_lm_positions"]
            )
        for name, head in self.head_layers.items():
            key = "sequence_output" if head.inner_dim else "pooled_output"
            logits = head(outputs[key], training=training)
            outputs[name] = tf.cast(logits, tf.float32)
        return outputs

    def _predict_words(self, sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(positions)
        masked = tf.reshape(tf.gather(sequence, positions, batch_dims=1), [-1, self._width])
        hidden = self.transform_norm(self.transform(masked))  # [B * M, D]
        table = tf.cast(tf.convert_to_tensor(self.encoder.get_embedding_table()), hidden.dtype)
        products = tf.cast(tf.matmul(hidden, table, transpose_b=True), tf.float32)  # [B * M, V]
        logits = tf.nn.bias_add(products, tf.convert_to_tensor(self.output_bias))  # [B * M, V]
        return tf.reshape(logits, [shape[0], shape[1], table.shape[0]])
