"""Fine-tuned classifiers: texts or images in, classes or masks out.

Shapes:
    B  examples in the batch
    C  classes
    F  text fields of an example
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import export_base
from quintain.hub import chat, configs, heads
from quintain.hub.images import detection, segmentation
from quintain.vision import image_serving


class TextPrediction(export_base.ExportModule):
    """Classifies texts, or pairs of them."""

    kind: ClassVar = "sentence_prediction"

    function_keys: ClassVar = {
        "serve": tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY,
        "serve_single": "serve_single",
    }

    def __init__(
        self, params: configs.HubConfig, model: keras.Model, head: heads.TextClassification
    ) -> None:
        """Takes the parts of a task."""
        super().__init__(params, model)
        self.preprocessor = head.preprocessor
        self.num_fields = num_fields = len(params.train_data.fields)
        self.labels = labels = head.list_names()

        @tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
        def predict_texts(texts: tf.Tensor) -> dict[str, tf.Tensor]:
            inputs = head.tokenize(tf.reshape(texts, [-1, num_fields]), num_fields)
            return describe_classes(model(inputs, training=False), labels)

        # It does not need this module, which a classifier does not keep.
        self.predictor = predict_texts

    @override
    @tf.function
    def serve(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts strings `[B]`, or `[B, F]` of several fields; see `describe_classes`."""
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
        return {"num_fields": self.num_fields, "labels": list(self.labels)}


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
        """Predicts the files `[B]`; see `describe_classes`."""
        shape = self.model.inputs[0].shape[1:]
        images = tf.map_fn(
            self.head.convert, image_bytes, fn_output_signature=tf.TensorSpec(shape, tf.float32)
        )
        return describe_classes(self.model(images, training=False), self.labels)

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


def describe_classes(logits: tf.Tensor, labels: Sequence[str]) -> dict[str, tf.Tensor]:
    """Returns logits `[B, C]`, their probabilities, and the best classes `[B]` and their names."""
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)  # [B]
    return {
        "logits": logits,
        "probabilities": tf.nn.softmax(tf.cast(logits, tf.float32)),
        "classes": classes,
        "labels": tf.gather(tf.constant(list(labels)), classes),
    }


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
