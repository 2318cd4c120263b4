"""Tagging: a label for each word, as for names or parts of speech.

Shapes:
    B  examples in the batch
    S  positions
    C  classes
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import base_config
from quintain.core import base_task, task_factory
from quintain.nlp.configs import encoders
from quintain.nlp.data import bert_inputs, data_loader_factory, tagging_dataloader
from quintain.nlp.metrics import entity_scores
from quintain.nlp.modeling import models
from quintain.nlp.tasks import token_task
from quintain.optimization.configs import ranges
from quintain.orbit import values
from quintain.settings import config_definitions as cfg

DUMMY_PATH: Final = "dummy"
"""Input path of examples of zeros, to try a model without data."""


@dataclasses.dataclass
class ModelConfig(base_config.Config):
    """A classifier of words."""

    encoder: encoders.EncoderConfig = dataclasses.field(default_factory=encoders.EncoderConfig)
    """The encoder."""

    head_dropout: encoders.Rate = 0.1
    """Share of the encoder's outputs that training drops before the classifier."""

    head_initializer_range: ranges.Positive = 0.02
    """Standard deviation of the classifier's initial weights."""


@dataclasses.dataclass
class TaggingConfig(cfg.TaskConfig):
    """Tagging: model, data and classes."""

    hub_module_url: str = base_config.unused(
        "",
        "Models of TensorFlow Hub can't be loaded by Keras 3; describe the encoder in "
        "task.model.encoder and give its checkpoint as task.init_checkpoint.",
    )
    """Kept for configs of the reference."""

    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    """The model."""

    class_names: list[str] | None = None
    """Names of the labels, in the order of their numbers, such as `[O, B-PER, I-PER]`."""

    train_data: cfg.DataConfig = dataclasses.field(
        default_factory=tagging_dataloader.TaggingDataConfig
    )
    """Training data."""

    validation_data: cfg.DataConfig = dataclasses.field(
        default_factory=lambda: tagging_dataloader.TaggingDataConfig(is_training=False)
    )
    """Evaluation data."""


class TaggingModule(token_task.TokenModule):
    """Predicts the labels of words."""

    kind: ClassVar = "tagging"
    examples = "texts.txt"

    @override
    def name_outputs(self, outputs: Any) -> dict[str, tf.Tensor]:
        return {"logits": outputs["logits"]}

    @override
    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "labels": list(self.params.class_names)}


@task_factory.register_task_cls(TaggingConfig)
class TaggingTask(token_task.TokenTask):
    """Predicts a label for each word of a sentence.

    Source:
        Devlin et al., 2019, section 5.3 (https://arxiv.org/abs/1810.04805).
    """

    metric_labels: ClassVar = {"f1": base_task.MetricLabel("entity F1", best="max")}
    export_module = TaggingModule

    def __init__(
        self, params: cfg.TaskConfig, logging_dir: str | None = None, name: str | None = None
    ) -> None:
        """Checks the names of the classes.

        Raises:
            ConfigError: If there are none, or one of them twice.
        """
        super().__init__(params, logging_dir=logging_dir, name=name)
        names = self.class_names
        if not names or len(set(names)) != len(names):
            raise errors.ConfigError(
                f"task.class_names: got {names!r}, expected the different names of all labels. "
                "`quintain data tagging` prints those of a file."
            )

    @property
    def class_names(self) -> Sequence[str]:
        """Names of the labels."""
        return list(self.task_config.class_names or ())

    @property
    @override
    def lower_case(self) -> bool:
        return bool(self._vocabulary_config.lower_case)

    @override
    def build_model(self) -> keras.Model:
        """Builds encoder and classifier."""
        config = self._model_config
        return models.BertTokenClassifier(
            network=self.build_encoder(),
            num_classes=len(self.class_names),
            initializer=keras.initializers.TruncatedNormal(stddev=config.head_initializer_range),
            dropout_rate=config.head_dropout,
            output="logits",
        )

    @override
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns batches of `train_data` or `validation_data`; see `TaggingDataLoader.load`.

        Raises:
            ConfigError: If text has no vocabulary.
            DataError: If data is missing, or a label is no class; with file and line or record.
        """
        if params.input_path == DUMMY_PATH:
            return self._build_dummy_data(params)
        if isinstance(params, tagging_dataloader.TaggingDataConfig) and self.vocabulary_path:
            shared = ("tokenization", "lower_case")
            params = params.replace(
                vocab_file=self.vocabulary_path,
                **{name: getattr(self._vocabulary_config, name) for name in shared},
            )
        loader = data_loader_factory.get_data_loader(params)
        if isinstance(loader, tagging_dataloader.TaggingDataLoader):
            loader.check(self.class_names)
        return loader.load(input_context)

    def _build_dummy_data(self, params: cfg.DataConfig) -> tf.data.Dataset:
        length = getattr(params, "seq_length", 128)
        labels = tf.zeros([1, length], tf.int32)  # [1, S]
        dummy = bert_inputs.repeat_dummy(
            length, {"label_ids": labels}, is_training=params.is_training
        )
        return dummy.map(lambda batch: (batch, batch.pop("label_ids")))

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the mean cross entropy, in nats, over all places with a label.

        Labels are `[B, S]`, negative where there is none; outputs are `logits` `[B, S, C]`, by that
        name or alone.

        Returns:
            Scalar float32; 0 where no place has a label.
        """
        if isinstance(model_outputs, Mapping):
            model_outputs = model_outputs["logits"]
        weights = tf.cast(labels >= 0, tf.float32)  # [B, S]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.maximum(labels, 0), tf.cast(model_outputs, tf.float32)
        )
        loss = tf.math.divide_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    @override
    def inference_step(self, inputs: Any, model: keras.Model) -> dict[str, tf.Tensor]:
        """Returns `logits` `[B, S, C]`, and `predict_ids` `[B, S]` int32, the likeliest classes."""
        logits = super().inference_step(inputs, model)["logits"]
        return {
            "logits": logits,
            "predict_ids": tf.argmax(logits, axis=-1, output_type=tf.int32),
        }

    @override
    def validation_step(
        self, inputs: Any, model: keras.Model, metrics: Any | None = None
    ) -> dict[str, Any]:
        """Evaluates a batch.

        Returns:
            `loss`; and for `aggregate_logs` `predict_ids` and `label_ids` `[B, S]`.
        """
        features, labels = self.split_inputs(inputs)
        outputs = self.inference_step(features, model)
        loss = self.compute_loss(labels, outputs, model, model.losses)
        logs = self._log_step(loss, labels, outputs, model, metrics)
        return {**logs, "predict_ids": outputs["predict_ids"], "label_ids": labels}

    @override
    def aggregate_logs(
        self,
        state: dict[str, list[list[str]]] | None = None,
        step_outputs: Mapping[str, Any] | None = None,
    ) -> dict[str, list[list[str]]]:
        """Gathers the labels of all words, by name.

        Returns:
            `predict_class` and `label_class`, a list of labels for each example.
        """
        state = state or {"predict_class": [], "label_class": []}
        outputs = step_outputs or {}
        predictions, labels = (
            np.concatenate(values.of_replicas(outputs[name]), axis=0)
            for name in ("predict_ids", "label_ids")
        )
        names = np.array(self.class_names, object)
        for predicted, right in zip(predictions, labels, strict=True):
            is_word = right >= 0
            state["predict_class"].append(names[predicted[is_word]].tolist())
            state["label_class"].append(names[right[is_word]].tolist())
        return state

    @override
    def reduce_aggregated_logs(
        self,
        aggregated_logs: Mapping[str, list[list[str]]] | None,
        global_step: tf.Variable | None = None,
    ) -> dict[str, float]:
        """Computes `f1`, `precision` and `recall` of entities, and the `accuracy` of words."""
        del global_step
        if not aggregated_logs:
            return {}
        return entity_scores.score(aggregated_logs["label_class"], aggregated_logs["predict_class"])


def predict(
    task: TaggingTask, params: cfg.DataConfig, model: keras.Model
) -> list[tuple[int, int, list[int]]]:
    """Predicts the labels of a data set.

    Args:
        task: The task.
        params: The data, with `include_sentence_id`.
        model: A model of the task.

    Returns:
        `(sentence_id, sub_sentence_id, label numbers of its words)` of all examples, sorted.
    """
    step = tf.function(lambda features: task.inference_step(features, model)["predict_ids"])
    found = []
    for features, labels in task.build_inputs(params.replace(is_training=False)):
        ids = [features.pop(name).numpy() for name in ("sentence_id", "sub_sentence_id")]
        rows = zip(*ids, step(features).numpy(), labels.numpy() >= 0, strict=True)
        found += [
            (int(sentence), int(part), predicted[is_word].tolist())
            for sentence, part, predicted, is_word in rows
        ]
    return sorted(found, key=lambda one: one[:2])
