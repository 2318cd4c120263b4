"""Object detection: boxes around the objects of an image, and their classes.

Shapes:
    B  images in the batch
    H  height of the images that the model takes
    W  their width
    M  most boxes of an image
    A  anchors
    C  classes
    D  detections of an image
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.hub import configs, heads, presets
from quintain.hub.images import boxes, detection_scores, segmentation
from quintain.vision import image_data

CROWD: Final = "crowd"
NUM_BOXES: Final = "num_boxes"
_SIZE: Final = "size"
_TARGETS: Final = "targets"

NO_CLASS: Final = -1
"""Class of padding among boxes."""

_NUM_CANDIDATES: Final = 1_000
"""Anchors of an image of which detections are chosen."""

_PRIOR: Final = 0.01
"""Probability of each class where the training of a new head begins."""


class ObjectDetection(segmentation.WholeImages):
    """Boxes and classes of objects.

    Source:
        Lin et al., 2017 (https://arxiv.org/abs/1708.02002).
    """

    task_name = "ObjectDetector"
    may_pad = True
    config: configs.DetectionConfig

    @override
    def build_model(self, config: configs.ModelConfig) -> keras.Model:
        model: Any = super().build_model(config)
        if not isinstance(model, presets.import_keras_hub().models.RetinaNetObjectDetector):
            raise errors.ConfigError(
                f"task.model.preset: {config.preset!r} is a {type(model).__name__}, expected a "
                "RetinaNet. Choose such a preset."
            )
        step = 2 ** max(int(name[1:]) for name in model.backbone.image_encoder.pyramid_outputs)
        if any(side % step for side in self.image_shape[:2]):
            raise errors.ConfigError(
                f"task.model.preset: {config.preset!r} takes images of {self.image_shape[0]} by "
                f"{self.image_shape[1]} pixels, expected multiples of {step}. Set image_size of "
                "its image converter, and save it anew."
            )
        if self.num_classes:
            _begin(model)
        self.num_classes = model.num_classes
        return model

    @override
    def build_metrics(self) -> list[keras.metrics.Metric]:
        return []

    @override
    def read(self, params: configs.DetectionDataConfig) -> heads.Columns:  # type: ignore[override]
        images = [*boxes.read(params, has_names=self.label_names is not None)]
        sizes = image_data.measure_whole(params, heads.ANY_IMAGE, [one.path for one in images])
        images = [images[place] for place in sizes]
        skips = params.corrupt_records == "skip"
        found = boxes.fit(images, [*sizes.values()], skips=skips)
        if params.is_training:
            found = [[box for box in one if not box.is_crowd] for one in found]
        if not any(not box.is_crowd for one in found for box in one):
            raise errors.DataError(f"{params.input_path}: no image has a box. Check the path.")
        shape = len(images), max(map(len, found))
        corners = np.full([*shape, 4], -1.0, np.float32)
        labels = np.full(shape, NO_CLASS, np.int32)
        crowd = np.zeros(shape, bool)
        for row, one in enumerate(found):
            for place, box in enumerate(one):
                corners[row, place] = box.corners
                labels[row, place] = self._take_class(box.place, box.label, params.label_field)
                crowd[row, place] = box.is_crowd
        return {
            "image": [one.path for one in images],
            _SIZE: np.array([*sizes.values()], np.int32),
            boxes.BOXES: corners,
            heads.LABEL: labels,
            CROWD: crowd,
        }

    @override
    def parse(self, example: heads.Batch) -> heads.Batch:
        image = tf.ensure_shape(self.convert(tf.io.read_file(example["image"])), self.image_shape)
        return {**example, "image": image}

    @override
    def preprocess(
        self, batch: heads.Batch, params: configs.HubDataConfig
    ) -> tuple[Any, heads.Columns]:
        del params
        scale, offset = self._find_place(batch[_SIZE])
        return batch["image"], {
            boxes.BOXES: batch[boxes.BOXES] * scale + offset,
            heads.LABEL: batch[heads.LABEL],
            CROWD: batch[CROWD],
        }

    def _find_place(self, sizes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns by what boxes of images of sizes `[B, 2]` are multiplied, and what is added.

        Returns:
            `[B, 1, 4]` both.
        """
        size = tf.constant(self.image_shape[:2], tf.float32)
        scale = size / tf.cast(sizes, tf.float32)  # [B, 2]
        if self.preprocessor.image_converter.pad_to_aspect_ratio:
            scale = tf.reduce_min(scale, axis=-1, keepdims=True) * tf.ones(2)
        offset = (size - tf.cast(sizes, tf.float32) * scale) // 2.0
        return tuple(tf.tile(one[:, tf.newaxis, ::-1], [1, 1, 2]) for one in (scale, offset))

    def place_back(self, found: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        """Returns boxes `[B, D, 4]` in pixels of the images whose sizes `[B, 2]` are given."""
        scale, offset = self._find_place(sizes)
        edges = tf.cast(tf.tile(sizes[:, tf.newaxis, ::-1], [1, 1, 2]), tf.float32)
        return tf.clip_by_value((found - offset) / scale, 0.0, edges)

    def match(self, model: Any, labels: heads.Batch) -> heads.Columns:
        """Adds what the anchors of a model learn of labels, by the preset's label encoder.

        Returns:
            Labels, with the changes of the anchors `[B, A, 4]` and their classes `[B, A]`, -1 for
            none and -2 for such as do not count; and as weights `[B, A]` which have an object.
        """
        encoder = model.label_encoder
        is_object = (labels[heads.LABEL] != NO_CLASS) & ~labels[CROWD]
        corners = keras.utils.bounding_boxes.convert_format(
            tf.where(is_object[..., tf.newaxis], labels[boxes.BOXES], -1.0),
            source="xyxy",
            target=encoder.bounding_box_format,
            height=self.image_shape[0],
            width=self.image_shape[1],
        )
        changes, classes = encoder(
            images=self._like_images(labels[heads.LABEL]),
            gt_boxes=corners,
            gt_classes=tf.cast(labels[heads.LABEL], tf.float32),
        )
        weight = tf.cast(classes > -1.0, tf.float32)
        return {**labels, _TARGETS: (changes, classes), heads.WEIGHT: weight}

    def _like_images(self, batch: tf.Tensor) -> tf.Tensor:
        """Returns zeros of the shape `[B, H, W, 3]`, of which KerasHub takes the size alone."""
        return tf.zeros([tf.shape(batch)[0], *self.image_shape])

    def compute_loss(self, labels: heads.Batch, outputs: heads.Batch) -> tf.Tensor:
        """Returns the losses that KerasHub trains a RetinaNet with, per anchor with an object.

        These are the focal loss of classes, and the Huber loss of changes of anchors. The loss is 0
        without such anchors.
        """
        changes, classes = labels[_TARGETS]
        weight = labels[heads.WEIGHT]
        logits = tf.cast(outputs["cls_logits"], tf.float32)
        focal = keras.losses.BinaryFocalCrossentropy(from_logits=True, reduction="none")
        huber = keras.losses.Huber(reduction="none")
        targets = tf.one_hot(tf.cast(classes, tf.int32), self.num_classes)
        of_classes = focal(targets, logits) * tf.cast(classes != -2.0, tf.float32)  # [B, A]
        of_boxes = huber(changes, tf.cast(outputs["bbox_regression"], tf.float32)) * weight
        count = tf.reduce_sum(weight)
        return tf.math.divide_no_nan(tf.reduce_sum(of_classes) + tf.reduce_sum(of_boxes), count)

    def decode(
        self, model: Any, outputs: heads.Batch, score_threshold: float
    ) -> dict[str, tf.Tensor]:
        """Returns the objects that a model sees, the most probable first.

        Returns:
            `boxes` `[B, D, 4]`, left, top, right and bottom in pixels of the images that the model
            takes; `scores` and `classes` `[B, D]`; and how many there are, `num_boxes` `[B]`.
        """
        encoder, generator = model.label_encoder, model.anchor_generator
        logits = tf.cast(outputs["cls_logits"], tf.float32)
        anchors = generator(self._like_images(logits))
        corners = keras.utils.bounding_boxes.decode_deltas_to_boxes(
            anchors=tf.concat([*anchors.values()], axis=0),
            boxes_delta=tf.cast(outputs["bbox_regression"], tf.float32),
            encoded_format=encoder.encoding_format,
            anchor_format=generator.bounding_box_format,
            box_format="yxyx",
            variance=encoder.box_variance,
            image_shape=self.image_shape,
        )
        scores = tf.sigmoid(logits)
        num_candidates = min(_NUM_CANDIDATES, logits.shape[1])
        places = tf.math.top_k(tf.reduce_max(scores, axis=-1), num_candidates)[1]
        found = tf.image.combined_non_max_suppression(
            tf.gather(corners, places, batch_dims=1)[:, :, tf.newaxis],
            tf.gather(scores, places, batch_dims=1),
            detection_scores.MAX_DETECTIONS,
            detection_scores.MAX_DETECTIONS,
            iou_threshold=self.config.iou_threshold,
            score_threshold=score_threshold,
            clip_boxes=False,
        )
        edges = tf.constant([*self.image_shape[:2]] * 2, tf.float32)
        corners = tf.clip_by_value(found.nmsed_boxes, 0.0, edges)
        return {
            boxes.BOXES: tf.gather(corners, [1, 0, 3, 2], axis=-1),
            "scores": found.nmsed_scores,
            "classes": tf.cast(found.nmsed_classes, tf.int32),
            NUM_BOXES: found.valid_detections,
        }


def _begin(model: Any) -> None:
    """Gives new heads the weights that the paper begins with, where KerasHub has others."""
    biases: Mapping[Any, float] = {
        model.classification_head: -math.log((1.0 - _PRIOR) / _PRIOR),
        model.box_head: 0.0,
    }
    for head, bias in biases.items():
        for layer in (*head.conv_layers, head.prediction_layer):
            layer.kernel.assign(layer.kernel * 0.2)  # Deviation 0.01 in place of 0.05.
        head.prediction_layer.bias.assign(keras.ops.full_like(head.prediction_layer.bias, bias))
