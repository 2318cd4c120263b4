"""Classification of images.

Shapes:
    B  images in the batch
    H  height
    W  width
    C  channels
    L  classes
"""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import base_task, export_base, task_factory
from quintain.files import whole_files
from quintain.modeling import tf_utils
from quintain.settings import config_definitions as cfg
from quintain.vision import backbones, image_configs, image_data, image_serving

CLASSES_FILE: Final = "classes.json"
"""File of a run's directory with the names of its classes."""


@task_factory.register_task_cls(image_configs.ImageClassificationConfig)
class ImageClassificationTask(base_task.Task):
    """Predicts the class of an image."""

    metric_labels: ClassVar = {
        "accuracy": base_task.MetricLabel("accuracy", ".1%", best="max"),
        "top_k_accuracy": base_task.MetricLabel("top k", ".1%", best="max"),
    }

    _task_config: image_configs.ImageClassificationConfig

    def __init__(
        self, params: cfg.TaskConfig, logging_dir: str | None = None, name: str | None = None
    ) -> None:
        """Stores the config."""
        super().__init__(params, logging_dir=logging_dir, name=name)
        self._augmentation: list[keras.layers.Layer] = []
        self._mixup_seed: keras.random.SeedGenerator | None = None

    @property
    @override
    def task_config(self) -> image_configs.ImageClassificationConfig:
        """The config this task was built from."""
        return self._task_config

    @functools.cached_property
    def class_names(self) -> list[str]:
        """Names of the classes, which the run's directory keeps.

        Raises:
            ConfigError: If there are none, or not those that the run began with.
            DataError: If the data are missing.
        """
        config = self.task_config

        def find() -> dict[str, Any]:
            return {"names": image_data.find_class_names(config.train_data, config.class_names)}

        names: list[str] = whole_files.keep_json(self.logging_dir, CLASSES_FILE, find)["names"]
        if config.class_names is not None and config.class_names != names:
            raise errors.ConfigError(
                f"task.class_names: got {errors.show(config.class_names)}, but the run has begun "
                f"with {errors.show(names)}. Use these, or another model directory."
            )
        for name in config.class_weights:
            if name not in names:
                raise errors.ConfigError(
                    f"task.class_weights.{name}: there is no such class, only "
                    f"{errors.enumerate_some(names)}.{errors.suggest(name, names)}"
                )
        return names

    @property
    def image_format(self) -> image_data.Format:
        """Size of the images that the model gets."""
        return image_data.Format.from_config(self.task_config)

    @override
    def build_model(self) -> keras.Model:
        """Builds backbone and last layer, from pixels of 0 to 255 to logits `[B, L]` float32."""
        config = self.task_config.model
        backbone = backbones.build(config, self.image_format.shape)
        backbone.trainable = not config.is_frozen
        images = keras.Input(self.image_format.shape, name="images")
        features = backbone(images)
        if config.dropout_rate:
            features = keras.layers.Dropout(config.dropout_rate)(features)
        # Zeros begin with equal probabilities, whatever the features.
        logits = keras.layers.Dense(
            len(self.class_names), dtype="float32", kernel_initializer="zeros", name="logits"
        )(features)
        self._augmentation = _build_augmentation(self.task_config)
        if self.task_config.augmentation.mixup:
            self._mixup_seed = keras.random.SeedGenerator()
        return keras.Model(images, logits)

    @override
    def initialize(self, model: keras.Model) -> None:
        """Loads `task.init_checkpoint`, or the backbone's weights from `task.model.weights`.

        Raises:
            CheckpointError: If there is no checkpoint, or it does not fit.
            ConfigError: If there is no such file, or it does not fit.
        """
        super().initialize(model)
        if self.task_config.model.weights:
            backbones.load_weights(model.get_layer("backbone"), self.task_config.model.weights)

    @override
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns batches of images.

        Returns:
            Images `[B, H, W, C]` uint8 and classes `[B]` int32.

        Raises:
            ConfigError: If the config contradicts itself.
            DataError: If images are missing or can't be decoded; it names the file.
        """
        if not isinstance(params, image_configs.ImageDataConfig):
            raise errors.ConfigError(
                f"task: got data of {type(params).__name__}, expected an ImageDataConfig."
            )
        return image_data.build(params, self.image_format, self.class_names, input_context)

    @override
    def split_inputs(self, inputs: Any) -> tuple[Any, Any]:
        images, labels = inputs
        return tf.cast(images, tf.float32), labels

    @override
    def train_step(
        self,
        inputs: Any,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        metrics: Any | None = None,
    ) -> dict[str, Any]:
        """Changes the images at random, and does a step with them."""
        images, labels = self.split_inputs(inputs)
        for layer in self._augmentation:
            images = layer(images, training=True)
        if self._mixup_seed is not None:
            images, labels = self._mix(images, labels)
        return super().train_step((images, labels), model, optimizer, metrics)

    def _mix(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mixes each image of a batch with its neighbour.

        Source:
            Zhang et al., 2017 (https://arxiv.org/abs/1710.09412).
        """
        alpha = self.task_config.augmentation.mixup
        share = keras.random.beta([tf.shape(labels)[0], 1], alpha, alpha, seed=self._mixup_seed)
        soft = tf.one_hot(labels, len(self.class_names))  # [B, L]
        part = share[:, :, tf.newaxis, tf.newaxis]  # [B, 1, 1, 1]
        return (
            part * images + (1.0 - part) * tf.roll(images, 1, axis=0),
            share * soft + (1.0 - share) * tf.roll(soft, 1, axis=0),
        )

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the mean cross entropy of a batch in nats.

        Labels are classes `[B]`, or the shares of classes `[B, L]`; outputs are logits `[B, L]`.

        Returns:
            Scalar float32; 0 for a batch without images.
        """
        config, num_classes = self.task_config, len(self.class_names)
        soft = labels if labels.shape.rank == 2 else tf.one_hot(labels, num_classes)
        smooth = soft * (1.0 - config.label_smoothing) + config.label_smoothing / num_classes
        losses = tf.nn.softmax_cross_entropy_with_logits(smooth, model_outputs)
        if config.class_weights:
            weights = [config.class_weights.get(name, 1.0) for name in self.class_names]
            losses *= tf.linalg.matvec(soft, tf.constant(weights))
        loss = tf_utils.safe_mean(losses)
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    @override
    def build_metrics(self, training: bool | None = None) -> list[keras.metrics.Metric]:
        """Returns accuracy, and of more than `top_k` classes that among the first k."""
        del training
        metrics: list[keras.metrics.Metric] = [
            keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        ]
        top_k = self.task_config.top_k
        if len(self.class_names) > top_k:
            metrics.append(
                keras.metrics.SparseTopKCategoricalAccuracy(top_k, name="top_k_accuracy")
            )
        return metrics

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        if labels.shape.rank == 2:
            labels = tf.argmax(labels, axis=1)
        super().process_metrics(metrics, labels, model_outputs, **kwargs)

    @classmethod
    @override
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns the commands that predict the classes of images."""
        del params
        return {
            "predict": f"quintain predict --model-dir={model_dir} image.png",
            "serve": f"quintain serve-model --model-dir={model_dir}",
        }

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the prediction of encoded images."""
        return image_serving.ImageClassification(model, self.image_format, self.class_names)


def _build_augmentation(
    config: image_configs.ImageClassificationConfig,
) -> list[keras.layers.Layer]:
    given = config.augmentation
    layers = keras.layers
    options: Mapping[str, Any] = {"dtype": "float32"}
    found: list[keras.layers.Layer] = []
    if given.flip != "none":
        found.append(layers.RandomFlip(given.flip, **options))
    if given.crop_padding:
        # What padding and cutting at a random place give, another place for each image.
        moves = [given.crop_padding / size for size in config.image_size]
        options_of_move = {"fill_mode": "constant", "interpolation": "nearest", **options}
        found.append(layers.RandomTranslation(*moves, **options_of_move))
    if given.rotation:
        found.append(layers.RandomRotation(given.rotation, fill_mode="constant", **options))
    if given.contrast:
        found.append(layers.RandomContrast(given.contrast, value_range=(0, 255), **options))
    if given.rand_augment:
        found.append(
            layers.RandAugment((0, 255), given.rand_augment, given.rand_augment_factor, **options)
        )
    return found
