"""A classifier or a regressor on top of an encoder.

Shapes:
    B  examples in the batch
    S  positions
    C  classes; 1 for a number
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.layers import cls_head


class BertClassifier(keras.Model):
    """Predicts the class of a text or of a pair of texts, or a number.

    Source:
        Devlin et al., 2019, section 4.1 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        network: keras.Model,
        num_classes: int,
        initializer: Any = "glorot_uniform",
        dropout_rate: float = 0.1,
        use_encoder_pooler: bool = True,
        head_name: str = "sentence_prediction",
        **kwargs: Any,
    ) -> None:
        """Creates the head.

        Args:
            network: An encoder; gives `sequence_output` and `pooled_output`.
            num_classes: Classes, or 1 for a number.
            initializer: Keras' initializer of the head's kernels.
            dropout_rate: Share of values that training drops before the output.
            use_encoder_pooler: Whether the head takes the encoder's pooled output; otherwise it has
                a dense layer of its own above the first position.
            head_name: Name of the head, and first part of the names of its parts in checkpoints.
            **kwargs: Arguments of a Keras model.
        """
        super().__init__(**kwargs)
        self.encoder = network
        self.num_classes = num_classes
        self.use_encoder_pooler = use_encoder_pooler
        if not use_encoder_pooler:
            cls_head.freeze_pooler(network)
        self._width = int(network.get_embedding_table().shape[-1])
        self.classifier = cls_head.ClassificationHead(
            inner_dim=0 if use_encoder_pooler else self._width,
            num_classes=num_classes,
            dropout_rate=dropout_rate,
            initializer=initializer,
            name=head_name,
        )

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        parts = self.classifier.checkpoint_items
        named = {f"{self.classifier.name}.{name}": part for name, part in parts.items()}
        return {"encoder": self.encoder, **named}

    @override
    def build(self, input_shape: Any = None) -> None:
        """Builds encoder and head; sizes do not depend on the input."""
        self.encoder.build()
        self.classifier.build((None, self._width))
        self.built = True

    @override
    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Predicts.

        Args:
            inputs: `input_word_ids`, `input_mask` and `input_type_ids`, `[B, S]` each; others are
                not used.
            training: Whether to apply dropout.

        Returns:
            Logits `[B, C]` float32.
        """
        outputs = self.encoder(inputs, training=training)
        key = "pooled_output" if self.use_encoder_pooler else "sequence_output"
        return tf.cast(self.classifier(outputs[key], training=training), tf.float32)
