"""ELECTRA: pretraining on words that a small generator replaces.

Shapes:
    B  examples in the batch
    S  positions
"""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import base_task, task_factory
from quintain.nlp.configs import bert, electra, encoders
from quintain.nlp.modeling import activations
from quintain.nlp.modeling.models import electra_pretrainer
from quintain.nlp.tasks import masked_lm


@dataclasses.dataclass
class ElectraPretrainConfig(masked_lm.MaskedLMConfig):
    """ELECTRA pretraining: model and data."""

    model: electra.ElectraPretrainerConfig = dataclasses.field(  # type: ignore[assignment]
        default_factory=lambda: electra.ElectraPretrainerConfig(
            cls_heads=[bert.ClsHeadConfig(inner_dim=768, dropout_rate=0.1)]
        )
    )
    """The two models."""


@task_factory.register_task_cls(ElectraPretrainConfig)
class ElectraPretrainTask(masked_lm.MaskedLMTask):
    """Predicts masked words by a generator, and by a discriminator which words are its own.

    Source:
        Clark et al., 2020 (https://arxiv.org/abs/2003.10555).
    """

    metric_labels: typing.ClassVar = {
        "discriminator_accuracy": base_task.MetricLabel("accuracy", best="max"),
        "disc_precision": base_task.MetricLabel("precision", best="max"),
        "disc_recall": base_task.MetricLabel("recall", best="max"),
        "masked_lm_accuracy": base_task.MetricLabel("generator", best="max"),
        "discriminator_loss": base_task.MetricLabel("discriminator loss", best="min"),
        "lm_example_loss": base_task.MetricLabel("word loss", best="min"),
    }

    @property
    def _electra(self) -> electra.ElectraPretrainerConfig:
        return typing.cast(electra.ElectraPretrainerConfig, self.task_config.model)

    @override
    def _list_encoders(self) -> dict[str, encoders.EncoderConfig]:
        names = ("generator_encoder", "discriminator_encoder")
        return {f"task.model.{name}": getattr(self._electra, name) for name in names}

    @override
    def _predicts_sentences(self) -> bool:
        return bool(getattr(self.task_config.train_data, "use_next_sentence_label", False))

    @override
    def build_model(  # type: ignore[override]  # of another config
        self, params: electra.ElectraPretrainerConfig | None = None
    ) -> keras.Model:
        """Builds the model of a config; None takes `task.model`.

        Raises:
            ConfigError: If the generator can't have the embeddings of both, or the activation.
        """
        config = params or self._electra
        discriminator = encoders.build_task_encoder(
            config.discriminator_encoder, self.task_config, uses_pooler=False
        )
        table = discriminator.get_embedding_table()
        chosen: Any = config.generator_encoder.get()
        if chosen.hidden_activation not in typing.get_args(activations.Name):
            raise errors.ConfigError(
                f"task.model.generator_encoder.{config.generator_encoder.type}.hidden_activation: "
                f"got {chosen.hidden_activation!r}, expected 'gelu' or another that is not gated."
            )
        if config.tie_embeddings:
            _check_tied(chosen, config.generator_encoder.type, tuple(table.shape))
        generator = encoders.build_task_encoder(
            config.generator_encoder,
            self.task_config,
            uses_pooler=False,
            embedding_layer=discriminator.get_embedding_layer() if config.tie_embeddings else None,
        )
        model = electra_pretrainer.ElectraPretrainer(
            generator_network=generator,
            discriminator_network=discriminator,
            vocab_size=int(generator.get_embedding_table().shape[0]),
            num_classes=config.num_classes,
            num_token_predictions=config.num_masked_tokens,
            mlm_activation=activations.get_approximate(chosen.hidden_activation),
            mlm_initializer=keras.initializers.TruncatedNormal(stddev=chosen.initializer_range),
            disallow_correct=config.disallow_correct,
            temperature=config.generator_temperature,
        )
        model.classification.trainable = self._predicts_sentences()
        return model

    @override
    def build_losses(  # type: ignore[override]  # as in the reference
        self,
        labels: Any,
        model_outputs: Any,
        metrics: Any | None = None,
        aux_losses: Any | None = None,
    ) -> tf.Tensor:
        """Computes the loss of a batch.

        Labels are those of masked words, and `input_mask` `[B, S]`. `process_metrics` updates the
        metrics.

        Returns:
            Scalar: the generator's loss, as of `MaskedLMTask`, and `discriminator_loss_weight`
            times the mean binary cross entropy over all words.
        """
        total = super().build_losses(labels, _name_generated(model_outputs), metrics, aux_losses)
        found = self._average(_compute_found_losses(model_outputs), _get_mask(labels))
        return total + self._electra.discriminator_loss_weight * found

    @override
    def reduce_over_replicas(self, labels: Any) -> None:
        for _ in range(2):  # Of the loss, and of the metric `total_loss`.
            super().reduce_over_replicas(labels)
            self._find_weight(_get_mask(labels))

    @override
    def build_metrics(self, training: bool | None = None) -> list[keras.metrics.Metric]:
        """Returns those of masked words, and of the discriminator.

        To find no word replaced is right for most. `discriminator_accuracy` is above that where
        `disc_precision`, the share that was replaced of the words that it finds, is above a half.
        """
        names = ("accuracy", "loss")
        return [
            *super().build_metrics(training),
            *(keras.metrics.Mean(name=f"discriminator_{name}") for name in names),
            keras.metrics.Mean(name="disc_precision"),
            keras.metrics.Mean(name="disc_recall"),
            keras.metrics.Mean(name="total_loss"),
        ]

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        super().process_metrics(metrics, labels, _name_generated(model_outputs), **kwargs)
        by_name = {metric.name: metric for metric in tf.nest.flatten(metrics)}
        mask = _get_mask(labels)
        is_replaced = tf.cast(model_outputs["disc_label"], tf.float32)
        is_found = tf.cast(model_outputs["disc_logits"] > 0, tf.float32)
        updates = {
            "discriminator_accuracy": (tf.equal(is_found, is_replaced), mask),
            "discriminator_loss": (_compute_found_losses(model_outputs), mask),
            "disc_precision": (is_replaced, mask * is_found),
            "disc_recall": (is_found, mask * is_replaced),
        }
        for name, parts in updates.items():
            by_name[name].update_state(*(tf.reshape(part, [-1]) for part in parts))
        by_name["total_loss"].update_state(self.build_losses(labels, model_outputs))


def _check_tied(chosen: Any, kind: str | None, shape: tuple[int, int]) -> None:
    """Checks that a generator can use the embeddings `shape` of its discriminator."""
    width = getattr(chosen, "embedding_size", None) or chosen.hidden_size
    if (chosen.vocab_size, width) != shape:
        raise errors.ConfigError(
            f"task.model.generator_encoder.{kind}: got {chosen.vocab_size} embeddings of width "
            f"{width}, but those of the discriminator, which tie_embeddings shares, are "
            f"{shape[0]} of width {shape[1]}. Set vocab_size={shape[0]} and "
            f"embedding_size={shape[1]}, or task.model.tie_embeddings=false."
        )


def _name_generated(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the generator's outputs as a model of masked words names them."""
    sentences = tf.cast(outputs["sentence_outputs"], tf.float32)
    return {"mlm_logits": outputs["lm_outputs"], "next_sentence": sentences}


def _compute_found_losses(outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:  # [B, S]
    return tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(outputs["disc_label"], tf.float32), tf.cast(outputs["disc_logits"], tf.float32)
    )


def _get_mask(labels: Mapping[str, tf.Tensor]) -> tf.Tensor:  # [B, S]
    return tf.cast(labels["input_mask"], tf.float32)
