"""Dual encoder, which compares the encodings of two texts.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the encoding
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.modeling import tf_utils
from quintain.nlp.modeling import constructed_model
from quintain.nlp.modeling.models import encoder_outputs
from quintain.nlp.modeling.networks import text_encoder

_SIDES = ("left", "right")


@keras.saving.register_keras_serializable("Text")
class DualEncoder(constructed_model.ConstructorConfig, keras.Model):
    """One encoder for two texts; logits say which texts of a batch belong together.

    Source:
        Feng et al., 2022 (https://arxiv.org/abs/2007.01852).
    """

    def __init__(
        self,
        network: Any,
        max_seq_length: int = 32,
        normalize: bool = True,
        logit_scale: float = 1.0,
        logit_margin: float = 0.0,
        output: str = "logits",
        **kwargs: Any,
    ) -> None:
        """Creates the comparison.

        Raises:
            ValueError: If `output` is none of these.
        """
        if output not in ("logits", "predictions"):
            raise ValueError(f"output: got {output!r}, expected 'logits' or 'predictions'.")
        super().__init__(**kwargs)
        self._keep_config(
            network=network,
            max_seq_length=max_seq_length,
            normalize=normalize,
            logit_scale=logit_scale,
            logit_margin=logit_margin,
            output=output,
        )
        self.network = network
        self.normalize = normalize
        self._names = list(text_encoder.INPUTS)
        if output == "logits":
            self._names = [
                name.replace("input", side, 1) for side in _SIDES for name in self._names
            ]
        self._max_seq_length = max_seq_length
        self.dot_products = MatMulWithMargin(
            logit_scale=logit_scale, logit_margin=logit_margin, name="dot_product"
        )
        encoder_outputs.get_widths(network)
        self.built = True

    @property
    def inputs(self) -> list[keras.KerasTensor]:
        """Keras' inputs of the model."""
        shape = (self._max_seq_length,)
        return [keras.Input(shape, dtype="int32", name=name) for name in self._names]

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        return {"encoder": self.network}

    @override
    def build(self, input_shape: Any = None) -> None:
        """Does nothing: all weights were made by the constructor."""

    @override
    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Compares texts, or encodes them.

        Args:
            inputs: `left_word_ids`, `left_mask`, `left_type_ids`, and the same of `right`,
                `[B, S]` each; or, to encode, `input_word_ids`, `input_mask`, `input_type_ids`. A
                list in this order, or a dictionary.

        Returns:
            `left_logits` and `right_logits` `[B, B]`, of each left text against all right ones and
            the other way round; or `sequence_output` `[B, S, D]` and `pooled_output` `[B, D]`.
        """
        named = inputs if isinstance(inputs, dict) else dict(zip(self._names, inputs, strict=True))
        if len(self._names) > len(text_encoder.INPUTS):
            return self.compare(*self.encode_pairs(named))
        sequence, pooled = self._encode(named)
        return {"sequence_output": sequence, "pooled_output": pooled}

    def encode(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the vectors `[B, D]` of texts, `input_word_ids` and so on `[B, S]`."""
        return self._encode(inputs)[1]

    def encode_pairs(self, inputs: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Returns the vectors `[B, D]` of left texts, and those of right ones."""
        names = text_encoder.INPUTS
        return [
            self.encode({name: inputs[name.replace("input", side, 1)] for name in names})
            for side in _SIDES
        ]

    def compare(self, left: tf.Tensor, right: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the logits of vectors, as `call` does."""
        left_logits, right_logits = self.dot_products(left, right)
        return {"left_logits": left_logits, "right_logits": right_logits}

    def _encode(self, inputs: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        outputs = encoder_outputs.run(self.network, inputs)
        pooled = tf.cast(outputs["pooled_output"], tf.float32)
        if self.normalize:
            pooled = tf.math.l2_normalize(pooled, axis=1)
        return outputs["sequence_output"], pooled


@keras.saving.register_keras_serializable(package="Text")
class MatMulWithMargin(keras.layers.Layer):
    """Products of all pairs, less a margin for those that belong together, times a scale."""

    def __init__(self, logit_scale: float = 1.0, logit_margin: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.logit_scale = logit_scale
        self.logit_margin = logit_margin

    @override
    def call(
        self, left_encoded: tf.Tensor, right_encoded: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns products `[B, B]` of `[B, D]` and `[B, D]`, and the same transposed."""
        size = tf_utils.get_shape_list(left_encoded)[0]
        products = tf.matmul(left_encoded, right_encoded, transpose_b=True)
        margin = self.logit_margin * tf.eye(size, dtype=products.dtype)
        logits = self.logit_scale * (products - margin)
        return logits, tf.transpose(logits)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "logit_scale": self.logit_scale,
            "logit_margin": self.logit_margin,
        }

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Returns the layer that a config describes; `custom_objects` is not used."""
        return super().from_config(config)
