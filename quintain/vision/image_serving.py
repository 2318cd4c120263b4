"""Trained classifiers of images: encoded images in, classes out.

Shapes:
    B  images in the batch
    L  classes
    K  the most probable classes, at most 5
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import export_base
from quintain.vision import image_data

INPUT: Final = "image_bytes"
"""Input of the signature."""

_MOST_CLASSES: Final = 5


class ImageClassification(export_base.ExportModule):
    """Classifies JPEGs, PNGs, GIFs, BMPs and WebPs."""

    kind: ClassVar = "image_classification"

    def __init__(
        self, model: keras.Model, image_format: image_data.Format, class_names: Sequence[str]
    ) -> None:
        """Takes the parts of an `ImageClassificationTask`."""
        super().__init__(None, model)
        self._format = image_format
        self._names = tuple(class_names)

    @override
    @tf.function
    def serve(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies encoded images, strings `[B]`.

        Returns:
            The most probable class: `label` `[B]` string and `score` `[B]` float32, its
            probability; and the first K as `top_labels` and `top_scores` `[B, K]`.
        """
        images = tf.map_fn(
            self._format.decode,
            image_bytes,
            fn_output_signature=tf.TensorSpec(self._format.shape, tf.uint8),
        )
        logits = self.model(tf.cast(images, tf.float32), training=False)  # [B, L]
        most = min(_MOST_CLASSES, len(self._names))
        scores, classes = tf.math.top_k(tf.nn.softmax(logits), most)  # [B, K]
        labels = tf.gather(tf.constant(self._names), classes)
        return {
            "label": labels[:, 0],
            "score": scores[:, 0],
            "top_labels": labels,
            "top_scores": scores,
        }

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        spec = tf.TensorSpec([None], tf.string, name=INPUT)
        return {
            signature: self.find_function(name).get_concrete_function(spec)
            for name, signature in function_keys.items()
        }

    @override
    def describe(self) -> dict[str, Any]:
        return describe_images(self._names, self._format.shape)


def describe_images(names: Sequence[str], shape: Sequence[int]) -> dict[str, Any]:
    """Returns details of a module that takes encoded images: labels, an instance, the input."""
    grey = tf.zeros(shape, tf.uint8)
    example = base64.b64encode(tf.io.encode_png(grey).numpy()).decode()
    return {"labels": list(names), "example": {"b64": example}, "image_input": INPUT}
