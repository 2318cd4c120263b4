"""Token classifier on top of an encoder.

Shapes:
    B  examples in the batch
    S  positions
    C  classes
    D  width of the encoder
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling import constructed_model
from quintain.nlp.modeling.models import encoder_outputs
from quintain.nlp.modeling.networks import classification


@keras.saving.register_keras_serializable("Text")
class BertTokenClassifier(constructed_model.ConstructedModel):
    """Predicts the class of each word.

    Source:
        Devlin et al., 2019, section 5.3 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        network: Any,
        num_classes: int,
        initializer: Any = "glorot_uniform",
        output: str = "logits",
        dropout_rate: float = 0.1,
        output_encoder_outputs: bool = False,
        **kwargs: Any,
    ) -> None:
        """Creates the classifier.

        Raises:
            ValueError: If `output` is none of these.
        """
        classification.check_output(output)
        super().__init__(**kwargs)
        self._keep_config(
            network=network,
            num_classes=num_classes,
            initializer=initializer,
            output=output,
            output_encoder_outputs=output_encoder_outputs,
        )
        self.encoder = network
        self.output_encoder_outputs = output_encoder_outputs
        self._output = output
        self.dropout = keras.layers.Dropout(dropout_rate)
        self.classifier = keras.layers.Dense(
            num_classes, kernel_initializer=initializer, name="predictions_transform_logits"
        )
        self.classifier.build((None, None, encoder_outputs.get_widths(network)[0]))
        self.built = True

    @property
    def inputs(self) -> Any:
        """Keras' inputs of the model: the encoder's."""
        return self.encoder.inputs

    @property
    def logits(self) -> keras.KerasTensor:
        """Keras' output of the classifier, `[B, S, C]`, for the `inputs`."""
        sequence = encoder_outputs.name_outputs(self.encoder(self.inputs))["sequence_output"]
        return self.classifier(sequence)

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        return {"encoder": self.encoder}

    @override
    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Predicts.

        Args:
            inputs: The encoder's, as a list or a dictionary.

        Returns:
            `logits`, or `predictions`, `[B, S, C]`; and `encoder_outputs` `[B, S, D]` where wanted.
        """
        sequence = self.dropout(encoder_outputs.run(self.encoder, inputs)["sequence_output"])
        logits = self.classifier(sequence)
        if self._output == "logits":
            outputs = {"logits": logits}
        else:
            outputs = {"predictions": tf.nn.log_softmax(tf.cast(logits, tf.float32))}
        return outputs | ({"encoder_outputs": sequence} if self.output_encoder_outputs else {})
