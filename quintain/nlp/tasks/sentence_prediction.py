"""Classification and regression of texts and pairs of texts.

Shapes:
    B  examples in the batch
    S  positions
    C  classes; 1 for a number
    F  text fields
    N  examples of an evaluation
"""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import base_task, task_factory
from quintain.modeling import tf_utils
from quintain.nlp.configs import encoders
from quintain.nlp.configs import sentence_prediction as config_module
from quintain.nlp.data import bert_inputs, data_loader_factory, sentence_prediction_dataloader
from quintain.nlp.data.masked import bert_vocabulary
from quintain.nlp.metrics import classification_scores
from quintain.nlp.modeling.models import bert_classifier
from quintain.nlp.tasks import prediction_serving, pretrained, vocabulary
from quintain.orbit import values
from quintain.settings import config_definitions as cfg

DUMMY_PATH: Final = "dummy"
"""Input path of examples of zeros, to try a model without data."""

ModelConfig = config_module.ModelConfig
SentencePredictionConfig = config_module.SentencePredictionConfig
METRIC_TYPES = config_module.METRIC_TYPES
TextConfig = sentence_prediction_dataloader.SentencePredictionTextDataConfig
predict = prediction_serving.predict


@task_factory.register_task_cls(SentencePredictionConfig)
class SentencePredictionTask(prediction_serving.ServesPredictions):
    """Predicts a class, or a number, of a text or of a pair of texts.

    Source:
        Devlin et al., 2019, section 4.1 (https://arxiv.org/abs/1810.04805).
    """

    metric_labels: ClassVar = {"cls_accuracy": base_task.MetricLabel("accuracy", best="max")}

    _task_config: SentencePredictionConfig

    def __init__(
        self, params: cfg.TaskConfig, logging_dir: str | None = None, name: str | None = None
    ) -> None:
        """Checks the config.

        Raises:
            ConfigError: If classes, their names and the metric do not go together.
        """
        super().__init__(params, logging_dir=logging_dir, name=name)
        config_module.check(self._task_config)

    @property
    @override
    def task_config(self) -> SentencePredictionConfig:
        """The config this task was built from."""
        return self._task_config

    @property
    def metric_type(self) -> str:
        """The metric of all predictions."""
        return self.task_config.metric_type

    @property
    def label_field(self) -> str:
        """Key of the label in a batch."""
        return getattr(self.task_config.train_data, "label_field", "label_ids")

    @property
    def label_names(self) -> list[str] | None:
        """Names of the classes; None if they have none."""
        return config_module.get_label_names(self.task_config)

    @property
    def class_names(self) -> list[str] | None:
        """Names of the classes, or their numbers where they have none; None for regression."""
        if self.is_regression:
            return None
        return self.label_names or [str(index) for index in range(self.num_classes)]

    @property
    def num_classes(self) -> int:
        """Classes; 1 for regression."""
        return self.task_config.model.num_classes or len(self.label_names or ())

    @property
    def num_fields(self) -> int:
        """Text fields of an example; 1 where the data are no text."""
        return len(getattr(self.task_config.train_data, "text_fields", None) or [""])

    @property
    def is_regression(self) -> bool:
        """True if the model predicts a number."""
        return self.num_classes == 1

    @override
    def build_model(self) -> keras.Model:
        """Builds encoder and classifier."""
        config = self.task_config.model
        self._check_vocabulary()
        encoder_config = config.encoder.get() if config.encoder.type else None
        stddev = getattr(encoder_config, "initializer_range", 0.02)
        return bert_classifier.BertClassifier(
            network=encoders.build_task_encoder(
                config.encoder, self.task_config, uses_pooler=config.use_encoder_pooler
            ),
            num_classes=self.num_classes,
            initializer=keras.initializers.TruncatedNormal(stddev=stddev),
            use_encoder_pooler=config.use_encoder_pooler,
        )

    def _check_vocabulary(self) -> None:
        if isinstance(self.task_config.train_data, TextConfig) and self._text_config.vocab_file:
            encoders.check_vocabulary(
                self.task_config.model.encoder, self.text_processor.vocabulary
            )

    @override
    def initialize(self, model: keras.Model) -> None:
        """Loads the encoder from `init_checkpoint`, and the dense layer under `init_cls_pooler`.

        Raises:
            CheckpointError: If there is no checkpoint, or its encoder is of another shape.
            ConfigError: If it was trained with another vocabulary, or a pattern of
                `task.init_exclude` matches nothing.
        """
        others = {}
        if self.task_config.init_cls_pooler:
            pooler = model.checkpoint_items["sentence_prediction.pooler_dense"]
            others["next_sentence.pooler_dense"] = pooler
        is_text = isinstance(self.task_config.train_data, TextConfig)
        pretrained.restore_encoder(
            model,
            self.task_config,
            self.vocabulary_path if is_text and self.task_config.init_checkpoint else "",
            field="task.train_data.vocab_file",
            others=others,
        )

    @override
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns batches of `train_data` or `validation_data`.

        Returns:
            `input_word_ids`, `input_mask`, `input_type_ids` `[B, S]` int32, and the label `[B]`.

        Raises:
            ConfigError: If the config contradicts itself.
            DataError: If data is missing, or a label is outside the range; with file and line.
        """
        if params.input_path == DUMMY_PATH:
            return self._build_dummy_data(params)
        if isinstance(params, TextConfig):
            params = self._complete(params)
        loader = data_loader_factory.get_data_loader(params)
        if isinstance(
            loader,
            sentence_prediction_dataloader.SentencePredictionDataLoader
            | sentence_prediction_dataloader.SentencePredictionTextDataLoader,
        ):
            loader.check_labels(None if self.is_regression else self.num_classes)
        dataset = loader.load(input_context)
        return dataset if self.is_regression else dataset.map(self._assert_labels)

    def _complete(self, params: TextConfig) -> TextConfig:
        names = params.label_names or self.label_names
        label_type = "float" if self.is_regression else params.label_type
        return params.replace(
            label_names=None if names is None else list(names),
            label_type=label_type,
            vocab_file=self.vocabulary_path,
        )

    def _assert_labels(self, batch: Any) -> Any:
        """Guards the loss where no files could be checked beforehand."""
        label = batch[self.label_field]
        in_range = tf.reduce_all((label >= 0) & (label < self.num_classes))
        message = f"{self.label_field}: a label is outside of 0 to {self.num_classes - 1}"
        with tf.control_dependencies([tf.debugging.Assert(in_range, [message, label])]):
            return {**batch, self.label_field: tf.identity(label)}

    def _build_dummy_data(self, params: cfg.DataConfig) -> tf.data.Dataset:
        label = tf.zeros([1], tf.float32 if self.is_regression else tf.int32)  # [1]
        return bert_inputs.repeat_dummy(
            getattr(params, "seq_length", 128),
            {self.label_field: label},
            is_training=params.is_training,
        )

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the mean loss of a batch: cross entropy in nats, or the squared error.

        Labels are a batch, or its labels `[B]` or `[B, 1]`; outputs are logits `[B, C]`.

        Returns:
            Scalar float32; 0 for a batch without examples.
        """
        label = tf.reshape(self._get_label(labels), [-1])  # [B]
        logits = tf.cast(model_outputs, tf.float32)  # [B, C]
        if self.is_regression:
            losses = tf.math.squared_difference(
                tf.cast(label, tf.float32), tf.reshape(logits, [-1])
            )
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.cast(label, tf.int32), logits
            )
        loss = tf_utils.safe_mean(losses)
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    def _get_label(self, labels: Any) -> tf.Tensor:
        return labels[self.label_field] if isinstance(labels, Mapping) else labels

    @override
    def build_metrics(self, training: bool | None = None) -> list[keras.metrics.Metric]:
        """Returns accuracy, with the area under precision and recall of two classes; or errors."""
        del training
        if self.is_regression:
            return [keras.metrics.MeanSquaredError(name="mean_squared_error")]
        metrics: list[keras.metrics.Metric] = [
            keras.metrics.SparseCategoricalAccuracy(name="cls_accuracy")
        ]
        if self.num_classes == 2:
            metrics.append(keras.metrics.AUC(name="auc", curve="PR"))
        return metrics

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        del kwargs
        label = tf.reshape(self._get_label(labels), [-1])  # [B]
        for metric in tf.nest.flatten(metrics):
            if metric.name == "auc":
                metric.update_state(label, tf.nn.softmax(model_outputs)[:, 1])
            elif metric.name == "mean_squared_error":
                metric.update_state(label, tf.reshape(model_outputs, [-1]))
            else:
                metric.update_state(label, model_outputs)

    @override
    def process_compiled_metrics(
        self, compiled_metrics: Any, labels: Any, model_outputs: Any
    ) -> None:
        compiled_metrics.update_state(self._get_label(labels), model_outputs)

    @override
    def count_items(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Counts examples, and the tokens that are not padding."""
        tokens = tf.reduce_sum(tf.cast(inputs["input_mask"], tf.int32))
        return {**super().count_items(inputs), "tokens": tokens}

    @override
    def validation_step(
        self, inputs: Any, model: keras.Model, metrics: Any | None = None
    ) -> dict[str, Any]:
        """Evaluates a batch.

        Returns:
            `loss`; and for `aggregate_logs` `sentence_prediction`, the logits `[B, C]` (the class
            `[B, 1]` for Matthews' correlation), and `labels` `[B]`.
        """
        outputs = self.inference_step(inputs, model)
        loss = self.compute_loss(inputs, outputs, model, model.losses)
        logs = self._log_step(loss, inputs, outputs, model, metrics)
        if self.metric_type.startswith("matthews"):
            outputs = tf.argmax(outputs, axis=1)[:, tf.newaxis]  # [B, 1]
        return {**logs, "sentence_prediction": outputs, "labels": self._get_label(inputs)}

    @override
    def aggregate_logs(
        self,
        state: dict[str, list[np.ndarray]] | None = None,
        step_outputs: Mapping[str, Any] | None = None,
    ) -> dict[str, list[np.ndarray]] | None:
        """Gathers predictions and labels of all steps and replicas.

        Returns:
            `sentence_prediction` and `labels`, an array for each step; None where the accuracy,
            which needs no more than a step at a time, is all.
        """
        if self.metric_type == "accuracy":
            return None
        state = state or {"sentence_prediction": [], "labels": []}
        for name, arrays in state.items():
            arrays.append(np.concatenate(values.of_replicas((step_outputs or {})[name]), axis=0))
        return state

    @override
    def reduce_aggregated_logs(
        self,
        aggregated_logs: Mapping[str, list[np.ndarray]] | None,
        global_step: tf.Variable | None = None,
    ) -> dict[str, Any]:
        """Computes the metric of all predictions.

        Returns:
            The score under the name of `metric_type`; the correlations `pearson` and `spearman`
            beside their mean. Nothing for `accuracy`.
        """
        del global_step
        if self.metric_type == "accuracy" or not aggregated_logs:
            return {}
        return classification_scores.score(
            self.metric_type,
            np.concatenate(aggregated_logs["labels"], axis=0).reshape(-1),  # [N]
            np.concatenate(aggregated_logs["sentence_prediction"], axis=0),  # [N, C]
        )

    @property
    def _text_config(self) -> TextConfig:
        params = self.task_config.train_data
        if not isinstance(params, TextConfig):
            raise errors.ConfigError(
                f"task.train_data: got a {type(params).__name__}, expected a "
                "SentencePredictionTextDataConfig: without it there is no vocabulary for text."
            )
        return params

    @functools.cached_property
    def vocabulary_path(self) -> str:
        """File of the vocabulary, which the model directory keeps a copy of.

        Raises:
            ConfigError: If there is none, or the directory holds another one.
        """
        return vocabulary.keep(
            self._text_config.vocab_file,
            self.logging_dir,
            field="task.train_data.vocab_file",
            name=vocabulary.get_copy_name(self._text_config.tokenization),
        )

    @functools.cached_property
    def text_processor(self) -> bert_inputs.TextProcessor:
        """Preprocessing of texts to the model's inputs, as in training.

        Raises:
            ConfigError: If the training data is not text.
        """
        params = self._text_config
        loaded = bert_vocabulary.load(
            self.vocabulary_path, params.tokenization, lower_case=params.lower_case
        )
        return bert_inputs.TextProcessor(params.seq_length, vocabulary=loaded)

    def build_predictor(self, model: keras.Model) -> prediction_serving.Predictor:
        """Returns a function of the graph that predicts from text, for serving and export.

        See `prediction_serving.build_predictor`; classes without names are called by their numbers.

        Raises:
            ConfigError: If the training data is not text.
        """
        return prediction_serving.build_predictor(
            model, self.text_processor, num_fields=self.num_fields, label_names=self.class_names
        )
