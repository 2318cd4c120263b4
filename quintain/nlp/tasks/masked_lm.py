"""Masked language modelling: pretraining of BERT.

Shapes:
    B  examples in the batch
    M  masked positions
"""

import dataclasses
import typing
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import base_task, task_factory
from quintain.modeling import token_losses, token_metrics
from quintain.nlp.configs import bert, encoders
from quintain.nlp.data import (
    bert_inputs,
    data_loader_factory,
    pretrain_dataloader,
    pretrain_text_dataloader,
)
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.masked import bert_vocabulary
from quintain.nlp.modeling import activations
from quintain.nlp.modeling.layers import cls_head
from quintain.nlp.modeling.models import bert_pretrainer
from quintain.nlp.tasks import reference_checkpoint, vocabulary
from quintain.settings import config_definitions as cfg

TextConfig = pretrain_text_dataloader.BertPretrainTextDataConfig

DUMMY_PATH: Final = "dummy"
"""Input path of examples of zeros, to try a model without data."""

_DUMMY_POSITIONS: Final = 128
_DUMMY_MASKED: Final = 20


@dataclasses.dataclass
class MaskedLMConfig(cfg.TaskConfig):
    """Masked-language pretraining: model and data."""

    model: bert.PretrainerConfig = dataclasses.field(
        default_factory=lambda: bert.PretrainerConfig(
            cls_heads=[bert.ClsHeadConfig(inner_dim=768, dropout_rate=0.1)]
        )
    )
    """The model."""

    scale_loss: bool = False
    """Kept for configs of the reference; the loss is always a mean over all replicas."""

    vocab_file: str = ""
    """Vocabulary that records of ids were made with. A copy is kept beside the checkpoints, so
    that fine-tuning with another one is an error. Text data names its own."""

    train_data: cfg.DataConfig = dataclasses.field(
        default_factory=pretrain_dataloader.BertPretrainDataConfig
    )
    """Training data."""

    validation_data: cfg.DataConfig = dataclasses.field(
        default_factory=lambda: pretrain_dataloader.BertPretrainDataConfig(is_training=False)
    )
    """Evaluation data."""


@task_factory.register_task_cls(MaskedLMConfig)
class MaskedLMTask(base_task.Task):
    """Predicts masked words, and whether a second sentence follows the first.

    Source:
        Devlin et al., 2019, section 3.1 (https://arxiv.org/abs/1810.04805).
    """

    metric_labels: typing.ClassVar = {
        "masked_lm_accuracy": base_task.MetricLabel("accuracy", best="max"),
        "lm_example_loss": base_task.MetricLabel("word loss", best="min"),
        "next_sentence_accuracy": base_task.MetricLabel("next sentence", best="max"),
    }

    @property
    def _model_config(self) -> bert.PretrainerConfig:
        return typing.cast(bert.PretrainerConfig, self.task_config.model)

    def _list_encoders(self) -> dict[str, encoders.EncoderConfig]:
        """Returns the encoders by the paths of their configs."""
        return {"task.model.encoder": self._model_config.encoder}

    def _predicts_sentences(self) -> bool:
        """Returns whether pairs of sentences have a loss."""
        return any(head.name == "next_sentence" for head in self._model_config.cls_heads)

    @property
    def _vocab_file(self) -> str:
        return typing.cast(MaskedLMConfig, self.task_config).vocab_file

    @override
    def build_model(self, params: bert.PretrainerConfig | None = None) -> keras.Model:
        """Builds the model of a config; None takes `task.model`."""
        config = params or self._model_config
        heads = [cls_head.ClassificationHead(**head.as_dict()) for head in config.cls_heads]
        return bert_pretrainer.BertPretrainerV2(
            encoders.build_task_encoder(
                config.encoder,
                self.task_config,
                uses_pooler=not all(head.inner_dim for head in config.cls_heads),
            ),
            mlm_activation=activations.get_approximate(config.mlm_activation),
            mlm_initializer=keras.initializers.TruncatedNormal(stddev=config.mlm_initializer_range),
            classification_heads=heads,
        )

    @override
    def initialize(self, model: keras.Model) -> None:
        """Loads `task.init_checkpoint` into a new model, if it is set.

        Of a checkpoint of the reference (see `reference_checkpoint`) the encoder is needed; heads
        that it lacks stay new, with a warning that names them.

        Raises:
            CheckpointError: If there is no checkpoint at the path, or it does not fit the model.
            ConfigError: If it was trained with another vocabulary.
        """
        field = "task.init_checkpoint"
        path = self.task_config.init_checkpoint
        data = self.task_config.train_data
        given = self._vocab_file
        if isinstance(data, TextConfig):
            given = data.vocab_file_path or bundled_corpora.find_name(data.input_path)
        if path and given:
            kept = self._keep_vocabulary(data)
            vocabulary.check_same_copy(kept, path, field=self._vocabulary_field)
        if not path or not reference_checkpoint.load_if_reference(
            model, path, field, required=["encoder"], exclude=self.task_config.init_exclude
        ):
            super().initialize(model)

    @override
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        if params.input_path == DUMMY_PATH:
            return _build_dummy_data(params)
        kept = self._keep_vocabulary(params)
        if isinstance(params, TextConfig):
            params = params.replace(vocab_file_path=kept)
        return data_loader_factory.get_data_loader(params).load(input_context)

    @property
    def _vocabulary_field(self) -> str:
        is_text = isinstance(self.task_config.train_data, TextConfig)
        return "task.train_data.vocab_file_path" if is_text else "task.vocab_file"

    def _keep_vocabulary(self, params: cfg.DataConfig) -> str:
        """Keeps a copy of the vocabulary beside the checkpoints, if there is one.

        For text it also checks that the encoder knows all tokens.
        """
        if not isinstance(params, TextConfig):
            if not self._vocab_file:
                return ""
            is_words = self._vocab_file.endswith(".txt")
            name = vocabulary.WORDS_FILE_NAME if is_words else vocabulary.FILE_NAME
            return vocabulary.keep(
                self._vocab_file, self.logging_dir, field="task.vocab_file", name=name
            )
        data = self.task_config.train_data
        if not params.vocab_file_path and bundled_corpora.find_name(data.input_path):
            sizes = [encoder.get().vocab_size for encoder in self._list_encoders().values()]
            vocabulary.train_bundled(data, self.logging_dir, vocab_size=min(sizes))
        path = vocabulary.keep(
            params.vocab_file_path,
            self.logging_dir,
            field="task.train_data.vocab_file_path",
            name=vocabulary.get_copy_name(params.tokenization),
        )
        loaded = bert_vocabulary.load(path, params.tokenization, lower_case=params.lower_case)
        for field, encoder in self._list_encoders().items():
            encoders.check_vocabulary(encoder, loaded, field)
        return path

    @override
    def build_losses(  # type: ignore[override]  # as in the reference
        self,
        labels: Any,
        model_outputs: Any,
        metrics: Any | None = None,
        aux_losses: Any | None = None,
    ) -> tf.Tensor:
        """Computes the loss of a batch.

        Labels are `masked_lm_ids` and `masked_lm_weights` `[B, M]`, and `next_sentence_labels` `[B,
        1]` where the model has a classifier `next_sentence`. `process_metrics` updates the metrics.

        Returns:
            Scalar: the weighted mean over the masked words, and the mean over the sentence pairs.
            Of several replicas, the mean of what they return is that over all words: it does not
            depend on how many there are, nor on which has how many words.
        """
        weights = tf.cast(labels["masked_lm_weights"], tf.float32)  # [B, M]
        words = _compute_word_losses(labels, model_outputs)
        total = self._average(words, weights)
        if "next_sentence" in model_outputs and "next_sentence_labels" in labels:
            total += tf.reduce_mean(_compute_sentence_losses(labels, model_outputs))
        return total + tf.add_n(aux_losses) if aux_losses else total

    def _average(self, losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Returns the weighted sum of losses, divided by the mean weight of a replica.

        Differentially private training computes the loss of each example alone.
        """
        return tf.math.divide_no_nan(tf.reduce_sum(losses * weights), self._find_weight(weights))

    def _find_weight(self, weights: tf.Tensor) -> tf.Tensor:
        """Returns the mean weight of a replica."""
        weight = tf.reduce_sum(weights)
        context = tf.distribute.get_replica_context()
        is_alone = context is None or context.num_replicas_in_sync == 1
        if not is_alone and self._private_step is None:
            weight = context.all_reduce(tf.distribute.ReduceOp.MEAN, weight)
        return weight

    @override
    def reduce_over_replicas(self, labels: Any) -> None:
        self._find_weight(tf.cast(labels["masked_lm_weights"], tf.float32))

    @override
    def build_metrics(self, training: bool | None = None) -> list[keras.metrics.Metric]:
        del training
        metrics: list[keras.metrics.Metric] = [
            token_metrics.TokenAccuracy("masked_lm_accuracy"),
            keras.metrics.Mean(name="lm_example_loss"),
        ]
        if self._predicts_sentences():
            metrics.append(token_metrics.TokenAccuracy("next_sentence_accuracy"))
            metrics.append(keras.metrics.Mean(name="next_sentence_loss"))
        return metrics

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        del kwargs
        by_name = {metric.name: metric for metric in tf.nest.flatten(metrics)}
        weights = labels["masked_lm_weights"]
        words = _compute_word_losses(labels, model_outputs)
        by_name["lm_example_loss"].update_state(words, weights)
        by_name["masked_lm_accuracy"].update_state(
            labels["masked_lm_ids"], model_outputs["mlm_logits"], weights
        )
        if "next_sentence_accuracy" in by_name and "next_sentence_labels" in labels:
            by_name["next_sentence_accuracy"].update_state(
                labels["next_sentence_labels"], model_outputs["next_sentence"]
            )
            losses = _compute_sentence_losses(labels, model_outputs)
            by_name["next_sentence_loss"].update_state(losses)

    @override
    def count_items(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Counts examples, and the tokens that are not padding."""
        tokens = tf.reduce_sum(tf.cast(inputs["input_mask"], tf.int32))
        return {**super().count_items(inputs), "tokens": tokens}


def _compute_word_losses(labels: Any, model_outputs: Any) -> tf.Tensor:  # [B, M]
    return token_losses.smoothed_cross_entropy(model_outputs["mlm_logits"], labels["masked_lm_ids"])


def _compute_sentence_losses(labels: Any, model_outputs: Any) -> tf.Tensor:  # [B]
    sentences = tf.reshape(labels["next_sentence_labels"], [-1])
    return token_losses.smoothed_cross_entropy(model_outputs["next_sentence"], sentences)


def _build_dummy_data(params: cfg.DataConfig) -> tf.data.Dataset:
    masked = tf.zeros([1, _DUMMY_MASKED], tf.int32)  # [1, M]
    others = {
        "masked_lm_positions": masked,
        "masked_lm_ids": masked,
        "masked_lm_weights": tf.ones_like(masked, tf.float32),
        "next_sentence_labels": tf.zeros([1, 1], tf.int32),
    }
    return bert_inputs.repeat_dummy(_DUMMY_POSITIONS, others, is_training=params.is_training)
