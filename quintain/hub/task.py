"""The task of fine-tuning a preset of KerasHub.

Shapes:
    B  examples in the batch
    C  classes, or tokens of the vocabulary
"""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import base_task, export_base, task_factory
from quintain.files import file_paths
from quintain.hub import adapters, configs, heads, packing, presets, serving
from quintain.hub.images import segmentation
from quintain.modeling import tf_utils, token_losses

HEADS: Final[Mapping[str, type[heads.Head]]] = {
    "text_classification": heads.TextClassification,
    "token_classification": heads.TokenClassification,
    "masked_lm": heads.MaskedLm,
    "causal_lm": heads.CausalLm,
    "image_classification": heads.ImageClassification,
    "semantic_segmentation": segmentation.SemanticSegmentation,
}

_logger = logging.getLogger(__name__)


@task_factory.register_task_cls(configs.HubConfig)
class HubTask(base_task.Task):
    """Fine-tunes a pretrained model with a head."""

    metric_labels: ClassVar = {
        "accuracy": base_task.MetricLabel("accuracy", best="max"),
        "mean_iou": base_task.MetricLabel("mean IoU", best="max"),
    }

    _task_config: configs.HubConfig
    _teach: Callable[[Any], tf.Tensor] | None = None

    @property
    @override
    def task_config(self) -> configs.HubConfig:
        """The config this task was built from."""
        return self._task_config

    @functools.cached_property
    def head(self) -> heads.Head:
        """How examples become inputs and labels."""
        return HEADS[self.task_config.model.head](self.task_config)

    @override
    def build_model(self) -> keras.Model:
        """Loads the preset with its head, freezes and adapts it.

        Raises:
            ConfigError: If it can't be loaded, or has no such head, layers or variables.
        """
        model = self.head.build_model(self.task_config.model)
        self._check_length(model)
        adapters.prepare(model, self.task_config.model)
        if not self.head.num_classes and self.head.has_classes:
            self.head.num_classes = int(model.output.shape[-1])
        self._teach = self._load_teacher(model)
        trained, total = adapters.count_trained(model)
        _logger.info("%s of %s numbers of the model are trained.", f"{trained:,}", f"{total:,}")
        return model

    def _check_length(self, model: keras.Model) -> None:
        given = self.task_config.model.sequence_length
        most = getattr(adapters.find_backbone(model), "max_sequence_length", None)
        if most is not None and given > most:
            raise errors.ConfigError(
                f"task.model.sequence_length: got {given}, but "
                f"{self.task_config.model.preset!r} has {most} positions. Set it to at most "
                "so many."
            )

    @override
    def build_inputs(
        self,
        params: configs.HubDataConfig,  # type: ignore[override]
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        """Returns batches of the model's inputs, and `label` and `weight` of what is predicted.

        Raises:
            DataError: If an example is wrong; with file and line.
        """
        return heads.build_batches(self.head, params, input_context)

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the mean cross entropy in nats over all that counts; mixed with the teacher's.

        Returns:
            Scalar float32.
        """
        logits = tf.cast(model_outputs, tf.float32)  # [B, ..., C]
        losses = token_losses.smoothed_cross_entropy(logits, labels[heads.LABEL])
        if heads.TEACHER in labels:
            settings = self.task_config.distillation
            theirs = distil(labels[heads.TEACHER], logits, settings.temperature)
            losses = (1.0 - settings.weight) * losses + settings.weight * theirs
        weights = labels[heads.WEIGHT]
        loss = tf.math.divide_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    @override
    def weigh_replica(self, labels: Any) -> tf.Tensor | None:
        """Weighs a replica by its share of what counts."""
        return tf_utils.share_of_replica(tf.reduce_sum(labels[heads.WEIGHT]))

    def _load_teacher(self, model: keras.Model) -> Callable[[Any], tf.Tensor] | None:
        """Returns a function that gives a teacher's logits; it hides the weights from checkpoints.

        Raises:
            ConfigError: If the teacher can't be loaded, or has other outputs.
        """
        preset = self.task_config.distillation.teacher
        if not preset:
            return None
        params = configs.ModelConfig(preset=preset, head=self.task_config.model.head)
        teacher = presets.load_model(params, self.head.task_name, 0)
        if teacher.output.shape[-1] != model.output.shape[-1]:
            raise errors.ConfigError(
                f"task.distillation.teacher: {preset!r} has {teacher.output.shape[-1]} outputs, "
                f"but the model {model.output.shape[-1]}. Give a teacher of the same classes or "
                "vocabulary."
            )
        teacher.trainable = False
        return lambda features: teacher(features, training=False)

    @override
    def train_step(
        self,
        inputs: Any,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        metrics: Any | None = None,
    ) -> dict[str, Any]:
        """Does a step; with a teacher, on what that says of the batch as well."""
        if self._teach is not None:
            features, labels = inputs
            inputs = features, {**labels, heads.TEACHER: self._teach(features)}
        return super().train_step(inputs, model, optimizer, metrics)

    @override
    def build_metrics(self, training: bool = True) -> list[keras.metrics.Metric]:
        del training
        return self.head.build_metrics()

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        del kwargs
        for metric in tf.nest.flatten(metrics):
            metric.update_state(labels[heads.LABEL], model_outputs, labels[heads.WEIGHT])

    @override
    def count_items(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Counts examples, and the tokens that are not padding."""
        features, labels = inputs
        counts = {"examples": tf.shape(labels[heads.LABEL])[0]}
        if isinstance(features, Mapping) and "padding_mask" in features:
            counts["tokens"] = tf.reduce_sum(tf.cast(features["padding_mask"], tf.int32))
        return counts

    @classmethod
    @override
    def list_next_commands(cls, params: Any, model_dir: str) -> dict[str, str]:
        """Returns the commands that use the model."""
        is_image = getattr(params.model, "head", None) in configs.IMAGE_HEADS
        given = "photo.png" if is_image else "< texts.txt"
        return {
            "predict": f"quintain predict --model-dir={model_dir} {given}",
            "export": f"quintain export --model-dir={model_dir} --output=exports/mine",
        }

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the functions that serve the model, into which adapters are merged.

        Text classification takes texts; other heads take what their inputs give.
        """
        model = self.build_merged(model)
        if isinstance(self.head, heads.TextClassification) and self.head.has_classes:
            return serving.build_text_prediction(self.task_config, model, self.head)
        if isinstance(self.head, segmentation.SemanticSegmentation):
            return serving.MaskPrediction(self.task_config, model, self.head)
        if isinstance(self.head, heads.ImageClassification):
            return serving.ImagePrediction(self.task_config, model, self.head)
        return super().build_export_module(model)

    def build_merged(self, model: keras.Model) -> keras.Model:
        """Returns a model without adapters that does the same.

        Those of a base in int8 are added to the weights that it was made from.
        """
        model = packing.find_plain(model)
        if not any(adapters.list_adapted(model)):
            return model
        plain = self.head.build_model(self.task_config.model)
        adapters.merge(model, plain)
        return plain

    def save(self, model: keras.Model, directory: str, file_format: str) -> None:
        """Writes a trained model, with merged adapters, into a directory.

        Args:
            model: The model.
            directory: Where to write.
            file_format: `keras` writes `model.keras`, `preset` what others can start from,
                `transformers` what Hugging Face's library reads.

        Raises:
            ConfigError: If the format does not have such a model.
        """
        merged: Any = self.build_merged(model)
        hub = presets.import_keras_hub()
        if file_format == "keras":
            if isinstance(merged, hub.models.Task) and not merged.compiled:
                # As it is when it is loaded, which else misses the optimizer's variables.
                merged.compile()
            merged.save(file_paths.join(directory, "model.keras"))
            return
        if not isinstance(merged, hub.models.Task):
            raise errors.ConfigError(
                f"task.model.head: got {self.task_config.model.head!r}, which KerasHub does not "
                "have, so that there is no preset of it. Export a SavedModel, or a .keras file."
            )
        merged.preprocessor = self.head.preprocessor
        if file_format == "preset":
            merged.save_to_preset(directory)
            return
        try:
            merged.export_to_transformers(directory)
        except (AttributeError, ImportError, ValueError, NotImplementedError) as error:
            cause = str(error).partition("\n")[0].rstrip(".")
            if not isinstance(merged, hub.models.CausalLM):
                cause = "only causal models are written"
            raise errors.ConfigError(
                f"--format: KerasHub can't write a {type(merged).__name__} for Transformers "
                f"({cause}). Export a preset."
            ) from error


def distil(teacher: tf.Tensor, student: tf.Tensor, temperature: float) -> tf.Tensor:
    """Returns the cross entropy of softened probabilities, times the temperature squared.

    Args:
        teacher: Logits `[..., C]`.
        student: Logits `[..., C]`.
        temperature: What they are divided by.

    Returns:
        `[...]` float32.
    """
    targets = tf.nn.softmax(tf.cast(teacher, tf.float32) / temperature)
    losses = tf.nn.softmax_cross_entropy_with_logits(targets, student / temperature)
    return losses * temperature**2
