"""Fine-tuned classifiers: texts or images in, classes or masks out.

Shapes:
    B  examples in the batch
    C  classes
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import export_base, text_prediction
from quintain.hub import chat, configs, heads
from quintain.hub.images import detection, segmentation
from quintain.vision import image_serving


def build_text_prediction(
    params: configs.HubConfig, model: keras.Model, head: heads.TextClassification
) -> text_prediction.TextPrediction:
    """Returns what serves a classifier of texts."""
    num_fields, labels = len(params.train_data.fields), head.list_names()

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
    def predict_texts(texts: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = head.tokenize(tf.reshape(texts, [-1, num_fields]), num_fields)
        return text_prediction.describe_classes(model(inputs, training=False), labels)

    return text_prediction.TextPrediction(
        params,
        model,
        predict_texts,
        preprocessor=head.preprocessor,
        num_fields=num_fields,
        labels=labels,
    )


class ImagePrediction(export_base.ExportModule):
    """Classifies images, the bytes of PNG, JPEG, BMP or GIF files."""

    def __init__(
        self, params: configs.HubConfig, model: keras.Model, head: heads.ImageClassification
    ) -> None:
        """Takes the parts of a task."""
        super().__init__(params, model)
        self.head = head
        self.preprocessor = head.preprocessor
        self.labels = head.list_names()

    @override
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=image_serving.INPUT)])
    def serve(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts the files `[B]`; see `text_prediction.describe_classes`."""
        shape = self.model.inputs[0].shape[1:]
        images = tf.map_fn(
            self.head.convert, image_bytes, fn_output_signature=tf.TensorSpec(shape, tf.float32)
        )
        return text_prediction.describe_classes(self.model(images, training=False), self.labels)

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        return {
            signature: self.find_function(name).get_concrete_function()
            for name, signature in function_keys.items()
        }

    @override
    def describe(self) -> dict[str, Any]:
        return image_serving.describe_images(self.labels, (32, 32, 3))


class MaskPrediction(ImagePrediction):
    """Segments images, the bytes of PNG, JPEG, BMP or GIF files."""

    head: segmentation.SemanticSegmentation

    @override
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=image_serving.INPUT)])
    def serve(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the `mask` of each file `[B]`: a PNG file of its size, of numbers of classes."""

        def convert(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            image = heads.decode_image(data)
            return self.head.preprocessor(image), tf.shape(image)[:2]

        def encode(found: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            logits = tf.image.resize(*found)  # As large as the image.
            classes = tf.argmax(logits, axis=-1)[..., tf.newaxis]
            return tf.io.encode_png(tf.cast(classes, tf.uint8))

        specs = tf.TensorSpec(self.head.image_shape, tf.float32), tf.TensorSpec([2], tf.int32)
        images, sizes = tf.map_fn(convert, image_bytes, fn_output_signature=specs)
        logits = tf.cast(self.model(images, training=False), tf.float32)
        found = tf.map_fn(encode, (logits, sizes), fn_output_signature=tf.TensorSpec([], tf.string))
        return {"mask": found}


class BoxPrediction(ImagePrediction):
    """Detects objects in images, the bytes of PNG, JPEG, BMP or GIF files."""

    head: detection.ObjectDetection

    @override
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=image_serving.INPUT)])
    def serve(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the objects of the files `[B]`, the most probable first.

        Returns:
            `boxes` `[B, D, 4]`, left, top, right and bottom in pixels of the file; `labels` and
            `scores` `[B, D]`; and how many of these D an image has, `num_boxes` `[B]`.
        """

        def convert(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            image = heads.decode_image(data)
            return self.head.preprocessor(image), tf.shape(image)[:2]

        specs = tf.TensorSpec(self.head.image_shape, tf.float32), tf.TensorSpec([2], tf.int32)
        images, sizes = tf.map_fn(convert, image_bytes, fn_output_signature=specs)
        outputs = self.model(images, training=False)
        found = self.head.decode(self.model, outputs, self.params.score_threshold)
        classes = tf.gather(tf.constant(self.labels), found["classes"])
        return {
            "boxes": self.head.place_back(found["boxes"], sizes),
            "labels": classes,
            "scores": found["scores"],
            detection.NUM_BOXES: found[detection.NUM_BOXES],
        }

    @override
    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "count_output": detection.NUM_BOXES}


class ChatModule(export_base.ExportModule):
    """Answers conversations; an export of it gives the logits of tokens."""

    kind: ClassVar = "chat"

    def __init__(self, params: configs.SftConfig, model: keras.Model, answerer: chat.Chat) -> None:
        """Takes the parts of a task."""
        super().__init__(params, model)
        self.chat = answerer

    @override
    @tf.function
    def serve(self, token_ids: tf.Tensor, padding_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the `logits` `[B, S, C]` after each token `[B, S]`."""
        features = {"token_ids": token_ids, "padding_mask": padding_mask}
        return {"logits": self.model(features, training=False)}

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        specs = {
            name: tf.TensorSpec([None, None], tf.int32, name=name)
            for name in ("token_ids", "padding_mask")
        }
        return {
            signature: self.find_function(name).get_concrete_function(**specs)
            for name, signature in function_keys.items()
        }
