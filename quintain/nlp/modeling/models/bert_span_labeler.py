"""Span labeler on top of an encoder: begin and end of the answer to a question.

Shapes:
    B  examples in the batch
    S  positions
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling import constructed_model
from quintain.nlp.modeling.models import encoder_outputs
from quintain.nlp.modeling.networks import span_labeling


@keras.saving.register_keras_serializable("Text")
class BertSpanLabeler(constructed_model.ConstructedModel):
    """Predicts a span.

    Source:
        Devlin et al., 2019, section 4.2 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        network: Any,
        initializer: Any = "glorot_uniform",
        output: str = "logits",
        **kwargs: Any,
    ) -> None:
        """Creates the head.

        Raises:
            ValueError: If `output` is none of these.
        """
        super().__init__(**kwargs)
        self._keep_config(network=network, initializer=initializer, output=output)
        self.encoder = network
        self.span_labeling = span_labeling.SpanLabeling(
            input_width=encoder_outputs.get_widths(network)[0],
            initializer=initializer,
            output=output,
            name="span_labeling",
        )
        # By these names `compile` knows the losses of the outputs.
        self.output_names = ["start_positions", "end_positions"]
        self.built = True

    @property
    def inputs(self) -> Any:
        """Keras' inputs of the model: the encoder's."""
        return self.encoder.inputs

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        return {"encoder": self.encoder}

    @override
    def call(self, inputs: Any) -> list[tf.Tensor]:
        """Predicts where spans begin and where they end, `[B, S]` each.

        Args:
            inputs: The encoder's, as a list or a dictionary.
        """
        outputs = encoder_outputs.run(self.encoder, inputs)
        return list(self.span_labeling(outputs["sequence_output"]))
