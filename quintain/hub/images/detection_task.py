"""The task of fine-tuning a detector of objects.

Shapes:
    B  images in the batch
    D  detections of an image
    G  most objects of an image
"""

import functools
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain.core import base_task, export_base, task_factory
from quintain.hub import configs, heads, serving
from quintain.hub import task as task_lib
from quintain.hub.images import boxes, detection, detection_scores
from quintain.orbit import values

_LEAST_SCORE: Final = 0.05
"""Probability from which detections count in the evaluation, as in the paper of RetinaNet."""


@task_factory.register_task_cls(configs.DetectionConfig)
class DetectionTask(task_lib.HubTask):
    """Fine-tunes a RetinaNet to find objects."""

    metric_labels: ClassVar = {
        "map": base_task.MetricLabel("mAP", best="max"),
        "map_50": base_task.MetricLabel("mAP at IoU 0.5", best="max"),
    }

    _task_config: configs.DetectionConfig

    @functools.cached_property
    def head(self) -> detection.ObjectDetection:
        """How examples become inputs and labels."""
        return detection.ObjectDetection(self._task_config)

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the losses of KerasHub; see `ObjectDetection.compute_loss`."""
        loss = self.head.compute_loss(labels, model_outputs)
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    @override
    def train_step(
        self,
        inputs: Any,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        metrics: Any | None = None,
    ) -> dict[str, Any]:
        """Does a step on what anchors learn."""
        features, labels = inputs
        inputs = features, self.head.match(model, labels)
        return super().train_step(inputs, model, optimizer, metrics)

    @override
    def validation_step(
        self, inputs: Any, model: keras.Model, metrics: Any | None = None
    ) -> dict[str, Any]:
        """Evaluates a batch.

        Returns:
            `loss`, which counts for `loss_count` anchors; and for `aggregate_logs` the objects
            `[B, G]` and detections `[B, D]`.
        """
        features, labels = inputs
        matched = self.head.match(model, labels)
        outputs = model(features, training=False)
        loss = self.compute_loss(matched, outputs, model, model.losses)
        found = self.head.decode(model, outputs, _LEAST_SCORE)
        return {
            **self._log_step(loss, matched, outputs, model, metrics),
            self.loss_count: tf.reduce_sum(matched[heads.WEIGHT]),
            **{f"true_{name}": value for name, value in labels.items()},
            **found,
        }

    @override
    def aggregate_logs(self, state: Any = None, step_outputs: Any = None) -> Any:
        """Gathers the objects and detections of all images."""
        state = state or []
        outputs = {name: values.of_replicas(value) for name, value in (step_outputs or {}).items()}
        true = [f"true_{name}" for name in (boxes.BOXES, heads.LABEL, detection.CROWD)]
        found = [detection.NUM_BOXES, boxes.BOXES, "scores", "classes"]
        for parts in zip(*(outputs[name] for name in (*true, *found)), strict=True):
            for one in zip(*parts, strict=True):
                true_boxes, true_classes, is_crowd, count, *rest = one
                is_real = true_classes != detection.NO_CLASS
                state.append(
                    detection_scores.Example(
                        *(part[: int(count)] for part in rest),
                        *(part[is_real] for part in (true_boxes, true_classes, is_crowd)),
                    )
                )
        return state

    @override
    def reduce_aggregated_logs(
        self, aggregated_logs: Any, global_step: tf.Variable | None = None
    ) -> dict[str, float]:
        """Computes the mean average precision, over IoU 0.5 to 0.95 and at 0.5, as COCO has it.

        There is none without objects.
        """
        del global_step
        found = detection_scores.compute_average_precision(aggregated_logs)
        if np.isnan(found[0]):
            return {}
        return {"map": float(np.mean(found)), "map_50": float(found[0])}

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the function that finds objects in image files."""
        return serving.BoxPrediction(self._task_config, self.build_merged(model), self.head)
