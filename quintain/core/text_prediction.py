"""Exports of classifiers: text in, classes or numbers out.

Shapes:
    B  examples in the batch
    C  classes; 1 for a number
    F  text fields of an example
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import export_base


class TextPrediction(export_base.ExportModule):
    """Classifies texts or several fields of text, or gives them a number."""

    kind: ClassVar = "sentence_prediction"

    function_keys: ClassVar = {
        "serve": tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY,
        "serve_single": "serve_single",
    }

    def __init__(
        self,
        params: Any,
        model: keras.Model,
        predictor: Callable[[tf.Tensor], dict[str, tf.Tensor]],
        *,
        preprocessor: Any,
        num_fields: int,
        labels: Sequence[str] | None,
    ) -> None:
        """Stores the parts; `predictor`, a function of the graph, takes what `serve` does.

        Of classes, which have `labels`, it gives what `describe_classes` does.
        """
        super().__init__(params, model, preprocessor=preprocessor)
        self.num_fields = num_fields
        self.labels = labels
        self.predictor = predictor

    @override
    @tf.function
    def serve(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts strings `[B]`, or `[B, F]` of several fields."""
        return self.predictor(inputs)

    @tf.function
    def serve_single(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts one string, or one example `[F]` of several fields."""
        return {name: value[0] for name, value in self.predictor(inputs[tf.newaxis]).items()}

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        example = [] if self.num_fields == 1 else [self.num_fields]
        shapes = {"serve": [None, *example], "serve_single": example}
        return {
            signature: self.find_function(name).get_concrete_function(
                tf.TensorSpec(shapes[name], tf.string, name="inputs")
            )
            for name, signature in function_keys.items()
        }

    @override
    def describe(self) -> dict[str, Any]:
        return {"num_fields": self.num_fields, "labels": self.labels and list(self.labels)}


def describe_classes(logits: tf.Tensor, labels: Sequence[str]) -> dict[str, tf.Tensor]:
    """Returns logits `[B, C]`, their probabilities, and the best classes `[B]` and their names."""
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)  # [B]
    return {
        "logits": logits,
        "probabilities": tf.nn.softmax(tf.cast(logits, tf.float32)),
        "classes": classes,
        "labels": tf.gather(tf.constant(list(labels)), classes),
    }
