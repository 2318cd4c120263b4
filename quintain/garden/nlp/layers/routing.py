"""Token dropping: importance of tokens, and the choice of those that blocks encode.

Shapes:
    B  examples in the batch
    S  positions
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.nlp.modeling.layers import layer_arguments


@keras.saving.register_keras_serializable(package="Text")
class TokenImportanceWithMovingAvg(keras.layers.Layer):
    """Importance of each token, as a moving average."""

    def __init__(
        self,
        vocab_size: int,
        init_importance: float,
        moving_average_beta: float = 0.995,
        **kwargs: Any,
    ) -> None:
        given = layer_arguments.LayerArguments(locals())
        super().__init__(**kwargs)
        self._given = given

    @override
    def build(self, input_shape: Any = None) -> None:
        del input_shape
        self._importance_embedding = self.add_weight(
            shape=(self._given.vocab_size,),
            initializer=keras.initializers.Constant(self._given.init_importance),
            trainable=False,
            name="importance_embed",
        )
        self.built = True

    def update_token_importance(self, token_ids: tf.Tensor, importance: tf.Tensor) -> None:
        """Moves the averages of tokens towards what they count now.

        Args:
            token_ids: Any shape.
            importance: The same shape.
        """
        ids, now = tf.reshape(token_ids, [-1]), tf.reshape(importance, [-1])
        beta = self._given.moving_average_beta
        table = tf.convert_to_tensor(self._importance_embedding)
        averages = tf.gather(table, ids) * beta + tf.cast(now * (1.0 - beta), table.dtype)
        self._importance_embedding.assign(
            tf.tensor_scatter_nd_update(table, ids[:, tf.newaxis], averages)
        )

    @override
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns how much each of the tokens counts."""
        return tf.gather(tf.convert_to_tensor(self._importance_embedding), inputs)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given.to_config()}


@keras.saving.register_keras_serializable(package="Text")
class SelectTopK(keras.layers.Layer):
    """Chooses the positions that count most, and some at random."""

    def __init__(
        self, top_k: int | None = None, random_k: int | None = None, **kwargs: Any
    ) -> None:
        """Checks how many.

        Raises:
            ConfigError: If both are None.
        """
        super().__init__(**kwargs)
        if top_k is None and random_k is None:
            raise errors.ConfigError("top_k: got None and random_k=None, expected a number in one.")
        self._top_k = top_k
        self._random_k = random_k
        self._seeds = keras.random.SeedGenerator() if random_k else None

    @override
    def call(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the chosen positions of `[B, S]`, `[B, K]` int32, and the others."""
        top_k, random_k = self._top_k or 0, self._random_k or 0
        places = tf.argsort(inputs, direction="DESCENDING")  # [B, S]
        best, rest = places[:, :top_k], places[:, top_k:]
        if self._seeds is None:
            return best, rest
        keys = tf.random.stateless_uniform(tf.shape(rest), self._seeds.next())
        rest = tf.gather(rest, tf.argsort(keys), batch_dims=1)
        return tf.concat([best, rest[:, :random_k]], axis=1), rest[:, random_k:]

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "top_k": self._top_k, "random_k": self._random_k}
