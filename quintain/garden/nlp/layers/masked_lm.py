"""Masked-language-model head.

Shapes:
    B  examples in the batch
    S  positions
    M  masked positions of an example
    V  words
    D  width of the encoder
    E  width of the embeddings
"""

from typing import Any, Final, NoReturn

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.nlp.modeling.layers import projection
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization

_OUTPUTS: Final = ("logits", "predictions")


@keras.saving.register_keras_serializable(package="Text")
class MaskedLM(keras.layers.Layer):
    """A dense layer, a normalisation, and products with the encoder's embeddings.

    Source:
        Devlin et al., 2019 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        embedding_table: Any,
        activation: Any = None,
        initializer: Any = "glorot_uniform",
        output: str = "logits",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Checks the options.

        Raises:
            ConfigError: If there is no such output.
        """
        super().__init__(name=name, **kwargs)
        if output not in _OUTPUTS:
            raise errors.ConfigError(
                f'output: Unknown `output` value "{output}". `output` can be either "logits" or '
                '"predictions".'
            )
        self.embedding_table = embedding_table
        self.activation = activation
        self.initializer = keras.initializers.get(initializer)
        self._output_type = output

    @override
    def build(self, input_shape: Any) -> None:
        """Creates the layers.

        Args:
            input_shape: `[B, S, D]`.
        """
        self._vocab_size, width = (int(size) for size in self.embedding_table.shape)
        self.dense = keras.layers.Dense(
            width,
            activation=self.activation,
            kernel_initializer=self.initializer,
            name="transform_dense",
        )
        self.dense.build((None, input_shape[-1]))
        self.layer_norm = LayerNormalization(1e-12, name="transform_LayerNorm")
        self.layer_norm.build((None, width))
        self.bias = self.add_weight(
            shape=(self._vocab_size,), initializer="zeros", autocast=False, name="output_bias"
        )
        self.built = True

    @override
    def call(self, sequence_data: tf.Tensor, masked_positions: tf.Tensor) -> tf.Tensor:
        """Predicts.

        Args:
            sequence_data: `[B, S, D]`, the encoder's output.
            masked_positions: `[B, M]`, the positions that are predicted.

        Returns:
            `[B, M, V]`, in the layer's precision.
        """
        masked = tf.gather(sequence_data, masked_positions, batch_dims=1)  # [B, M, D]
        hidden = self.layer_norm(self.dense(tf.reshape(masked, [-1, masked.shape[-1]])))
        table = tf.cast(tf.convert_to_tensor(self.embedding_table), hidden.dtype)
        products = tf.cast(projection.multiply_by_table(hidden, table), tf.float32)  # [B * M, V]
        logits = tf.nn.bias_add(products, tf.cast(tf.convert_to_tensor(self.bias), tf.float32))
        shape = tf.shape(masked_positions)
        logits = tf.reshape(logits, [shape[0], shape[1], self._vocab_size])
        logits = tf.ensure_shape(logits, [*masked_positions.shape, self._vocab_size])
        return logits if self._output_type == "logits" else tf.nn.log_softmax(logits)

    def list_width_exponents(self) -> list[tuple[keras.Variable, float]]:
        """Returns how weights differ from others in `optimization.width_transfer`.

        The normalisation makes up for embeddings that are larger than other outputs' kernels.
        """
        return [(variable, -1.0) for variable in self.layer_norm.weights]

    @override
    def get_config(self) -> NoReturn:
        """Refuses: the embeddings belong to another layer.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "MaskedLM cannot be directly serialized, because its embeddings are the encoder's."
        )
