"""Factorized embeddings: narrower than the model, then projected to its width."""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.garden.nlp.layers import on_device_embedding
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import projection


@keras.saving.register_keras_serializable(package="Text")
class FactorizedEmbedding(on_device_embedding.OnDeviceEmbedding):
    """`OnDeviceEmbedding`, then a linear map to another width.

    Source:
        Lan et al., 2020, section 3.1 (https://arxiv.org/abs/1909.11942).
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_width: int,
        output_dim: int,
        initializer: Any = "glorot_uniform",
        use_one_hot: bool = False,
        scale_factor: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vocab_size=vocab_size,
            embedding_width=embedding_width,
            initializer=initializer,
            use_one_hot=use_one_hot,
            scale_factor=scale_factor,
            **kwargs,
        )
        self._output_dim = output_dim

    @override
    def build(self, input_shape: Any = None) -> None:
        self._embedding_projection = projection.Projection(
            self._output_dim,
            use_bias=False,
            kernel_initializer=tf_utils.clone_initializer(self._given.initializer),
            name="embedding_projection",
        )
        self._embedding_projection.build((None, self.embedding_width))
        super().build(input_shape)

    @override
    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings `[..., output_dim]` of ids `[...]`."""
        return self._embedding_projection(super().call(inputs))

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "output_dim": self._output_dim}
