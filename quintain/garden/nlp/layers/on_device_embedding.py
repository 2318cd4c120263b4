"""Embedding table of ids.

Shapes:
    V  ids
    D  width of an embedding
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.layers import layer_arguments


@keras.saving.register_keras_serializable(package="Text")
class OnDeviceEmbedding(keras.layers.Layer):
    """Looks embeddings up; only what was looked up is cast to the precision of the layer.

    Example:
        >>> OnDeviceEmbedding(vocab_size=5, embedding_width=4)(tf.constant([[1, 2, 0]])).shape
        TensorShape([1, 3, 4])
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_width: int,
        initializer: Any = "glorot_uniform",
        use_one_hot: bool = False,
        scale_factor: float | None = None,
        weight_fallback_dtype: Any = tf.float32,
        **kwargs: Any,
    ) -> None:
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        self._given = given

    @override
    def build(self, input_shape: Any = None) -> None:
        del input_shape
        self.embeddings = self.add_weight(
            shape=(self.vocab_size, self.embedding_width),
            initializer=self._given.initializer,
            autocast=False,
            name="embeddings",
        )
        self.built = True

    @override
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings `[..., D]` of ids `[...]`."""
        table = tf.convert_to_tensor(self.embeddings)
        if self._given.use_one_hot:
            vectors = tf.one_hot(inputs, self.vocab_size, dtype=self.compute_dtype)
            found = tf.matmul(
                tf.reshape(vectors, [-1, self.vocab_size]), tf.cast(table, self.compute_dtype)
            )
            shape = tf.concat([tf.shape(inputs), [self.embedding_width]], axis=0)
            found = tf.ensure_shape(tf.reshape(found, shape), [*inputs.shape, self.embedding_width])
        else:
            found = tf.cast(tf.gather(table, inputs), self.compute_dtype)
        return found * self._given.scale_factor if self._given.scale_factor else found

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return int(self._given.vocab_size)

    @property
    def embedding_width(self) -> int:
        """Width of an embedding."""
        return int(self._given.embedding_width)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}
