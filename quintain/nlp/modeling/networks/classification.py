"""Classification and regression of vectors."""

from typing import Any

import keras

from quintain.nlp.modeling import constructed_model

OUTPUTS = ("logits", "predictions")
"""Kinds of outputs: as they are, or their log-softmax."""


def check_output(output: str) -> None:
    """Checks what kind of outputs a network gives.

    Raises:
        ValueError: If there is no such kind.
    """
    if output not in OUTPUTS:
        raise ValueError(
            f'Unknown `output` value "{output}"; expected one of {", ".join(OUTPUTS)}.'
        )


@keras.saving.register_keras_serializable("Text")
class Classification(constructed_model.ConstructorConfig, keras.Model):
    """A dense layer from `[B, input_width]` to `[B, num_classes]`; Keras' functional model."""

    def __init__(
        self,
        input_width: int,
        num_classes: int,
        initializer: Any = "glorot_uniform",
        output: str = "logits",
        **kwargs: Any,
    ) -> None:
        """Creates the layer.

        Raises:
            ValueError: If `output` is none of these.
        """
        given = constructed_model.arguments(locals())
        check_output(output)
        vector = keras.Input((input_width,), dtype="float32", name="cls_output")
        logits = keras.layers.Dense(
            num_classes, kernel_initializer=initializer, name="predictions_transform_logits"
        )(vector)
        super().__init__(inputs=vector, outputs=normalize(logits, output), **kwargs)
        self._keep_config(**given)
        self.logits = logits


def normalize(logits: Any, output: str) -> Any:
    """Returns logits, or their log-softmax in float32."""
    if output == "logits":
        return logits
    return keras.layers.Activation("log_softmax", dtype="float32")(logits)
