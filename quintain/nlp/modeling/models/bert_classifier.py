"""A classifier or a regressor on top of an encoder.

Shapes:
    B  examples in the batch
    S  positions
    C  classes; 1 for a number
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.modeling import unbuilt_layers
from quintain.nlp.modeling import constructed_model
from quintain.nlp.modeling.layers import cls_head as cls_head_module
from quintain.nlp.modeling.models import encoder_outputs


@keras.saving.register_keras_serializable("Text")
class BertClassifier(constructed_model.ConstructedModel):
    """Predicts the class of a text or of a pair of texts, or a number.

    Source:
        Devlin et al., 2019, section 4.1 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        network: Any,
        num_classes: int,
        initializer: Any = "glorot_uniform",
        dropout_rate: float = 0.1,
        use_encoder_pooler: bool = True,
        head_name: str = "sentence_prediction",
        cls_head: keras.layers.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        given = constructed_model.arguments(locals())
        del given["dropout_rate"]
        super().__init__(**kwargs)
        self._keep_config(**given)
        self.encoder = network
        self.num_classes = num_classes
        self.head_name = head_name
        self.initializer = initializer
        self.use_encoder_pooler = use_encoder_pooler
        width, pooled_width = encoder_outputs.get_widths(network)
        self.classifier = cls_head or cls_head_module.ClassificationHead(
            inner_dim=0 if use_encoder_pooler else width,
            num_classes=num_classes,
            dropout_rate=dropout_rate,
            initializer=initializer,
            name=head_name,
        )
        shape = (None, pooled_width) if use_encoder_pooler else (None, None, width)
        unbuilt_layers.make_weights(self.classifier, shape)
        self.built = True

    @property
    def inputs(self) -> Any:
        """Keras' inputs of the model: the encoder's."""
        return self.encoder.inputs

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        parts = getattr(self.classifier, "checkpoint_items", {})
        named = {f"{self.classifier.name}.{name}": part for name, part in parts.items()}
        return {"encoder": self.encoder, **named}

    @override
    def call(self, inputs: Any, training: bool = False) -> tf.Tensor:
        """Predicts.

        Args:
            inputs: `input_word_ids`, `input_mask` and `input_type_ids`, `[B, S]` each: as a list in
                this order, or as a dictionary, in which others are not used.
            training: Whether to apply dropout.

        Returns:
            Logits `[B, C]` float32.
        """
        del training  # Keras tells the layers.
        outputs = encoder_outputs.run(self.encoder, inputs)
        key = "pooled_output" if self.use_encoder_pooler else "sequence_output"
        return tf.cast(self.classifier(outputs[key]), tf.float32)
