"""Translation: an encoder-decoder Transformer, trained on sentence pairs and scored by BLEU.

Shapes:
    B  sentence pairs in the batch
    S  source tokens per sentence, padded with 0
    T  target tokens per sentence, padded with 0, each sentence ending in EOS
    L  generated tokens per sentence
    V  vocabulary size
"""

import functools
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import base_task, task_factory
from quintain.files import file_paths
from quintain.modeling import tf_utils, token_losses, token_metrics
from quintain.nlp.configs import translation as config_module
from quintain.nlp.data import tokenizers, wmt_dataloader
from quintain.nlp.modeling import growth
from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks
from quintain.nlp.tasks import (
    reference_checkpoint,
    translation_report,
    translation_serving,
    vocabulary,
)
from quintain.orbit import cluster, values
from quintain.reference import reference_names
from quintain.settings import config_definitions as cfg

__getattr__ = reference_names.refusing(__name__)
PAD_ID = 0
EncDecoder = config_module.EncDecoder
ModelConfig = config_module.ModelConfig
TranslationConfig = config_module.TranslationConfig

_logger = logging.getLogger(__name__)


@task_factory.register_task_cls(TranslationConfig)
class TranslationTask(translation_serving.ServesTranslations):
    """A single-replica view of training, evaluating and decoding a translation model.

    The vocabulary comes from `sentencepiece_model_path`, or is trained from the training data the
    first time that it is needed (see `quintain.nlp.tasks.vocabulary`).
    """

    metric_labels: ClassVar = {
        "perplexity": base_task.MetricLabel("perplexity", best="min"),
        "token_accuracy": base_task.MetricLabel("accuracy", best="max"),
        "sacrebleu_score": base_task.MetricLabel("BLEU", best="max"),
        "chrf_score": base_task.MetricLabel("chrF", best="max"),
        "exact_match": base_task.MetricLabel("exact", best="max"),
        "bleu_score": base_task.MetricLabel("uncased BLEU", best="max", is_minor=True),
    }

    _task_config: TranslationConfig

    def __init__(
        self, params: cfg.TaskConfig, logging_dir: str | None = None, name: str | None = None
    ) -> None:
        """Checks the vocabularies that are given, without loading them.

        Raises:
            ConfigError: If one is missing, or has no EOS; or if there is none, and no `logging_dir`
                to train one for.
            DataError: If one is no SentencePiece model.
        """
        super().__init__(params, logging_dir=logging_dir, name=name)
        sides: tuple[vocabulary.Side, ...] = ("source", "target")
        if self.task_config.share_vocabulary:
            sides = ("both",)
        for side in sides:
            vocabulary.check_given(self._find_given_vocabulary(side), self.logging_dir, side)

    @property
    @override
    def task_config(self) -> TranslationConfig:
        """The config this task was built from."""
        return self._task_config

    @functools.cached_property
    def tokenizer(self) -> tokenizers.SentencePieceTokenizer:
        """The tokenizer of the source, and of the target as well if they share a vocabulary.

        Raises:
            ConfigError: If there is no vocabulary, nothing to train one from, or it has no EOS.
        """
        return tokenizers.SentencePieceTokenizer(self.vocabulary_path)

    @functools.cached_property
    def target_tokenizer(self) -> tokenizers.SentencePieceTokenizer:
        """The tokenizer of the target; the one of the source if they share a vocabulary."""
        if self.task_config.share_vocabulary:
            return self.tokenizer
        return tokenizers.SentencePieceTokenizer(self.target_vocabulary_path)

    @functools.cached_property
    def vocabulary_path(self) -> str:
        """File of the source's vocabulary, which is trained if it does not exist yet."""
        return self._prepare_vocabulary("both" if self.task_config.share_vocabulary else "source")

    @functools.cached_property
    def target_vocabulary_path(self) -> str:
        """File of the target's vocabulary, which is trained if it does not exist yet."""
        if self.task_config.share_vocabulary:
            return self.vocabulary_path
        return self._prepare_vocabulary("target")

    def _find_given_vocabulary(self, side: vocabulary.Side) -> str:
        config = self.task_config
        if side == "target":
            return config.target_sentencepiece_model_path
        return config.sentencepiece_model_path or ""

    def _prepare_vocabulary(self, side: vocabulary.Side) -> str:
        return vocabulary.prepare(
            self.task_config.train_data,
            model_path=self._find_given_vocabulary(side),
            vocab_size=self.task_config.vocab_size,
            max_pairs=self.task_config.max_vocab_pairs,
            model_dir=self.logging_dir,
            side=side,
        )

    @override
    def initialize(self, model: keras.Model) -> None:
        """Loads `task.init_checkpoint` into a new model, if it is set.

        It may be one of the reference, see `reference_checkpoint`.

        Raises:
            CheckpointError: If it does not fit the model.
            ConfigError: If it was trained with another vocabulary than the run's.
        """
        field = "task.init_checkpoint"
        checkpoint = self.task_config.init_checkpoint
        if checkpoint:
            vocabulary.check_same(self.logging_dir, checkpoint)
        if not checkpoint or not reference_checkpoint.load_if_reference(
            model, checkpoint, field, exclude=self.task_config.init_exclude
        ):
            super().initialize(model)

    @override
    def build_model(self) -> keras.Model:
        """Creates the model, with the vocabulary's number of tokens."""
        given = self.task_config.model.as_dict()
        del given["label_smoothing"]
        given |= {
            "encoder_layer": transformer_stacks.TransformerEncoder(**given.pop("encoder")),
            "decoder_layer": transformer_stacks.TransformerDecoder(**given.pop("decoder")),
            "skip_padding": config_module.skips_padding(self.task_config),
        }
        if not self.task_config.share_vocabulary:
            given["target_vocab_size"] = self.target_tokenizer.vocab_size
        return seq2seq_transformer.Seq2SeqTransformer(
            vocab_size=self.tokenizer.vocab_size, eos_id=self.target_tokenizer.eos_id, **given
        )

    @override
    def grow_model(self, old_model: keras.Model, new_model: keras.Model) -> None:
        """Makes a wider or deeper model compute what the model of the former stage does.

        Raises:
            ConfigError: If the new model is smaller, or of another kind.
        """
        try:
            growth.grow(old_model, new_model)
        except errors.ConfigError as error:
            raise errors.ConfigError(f"trainer.progressive.stages: task.model.{error}") from error

    @override
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns batches of tokenised pairs of `train_data` or `validation_data`.

        Returns:
            Dictionaries with `inputs` `[B, S]` and `targets` `[B, T]`, integer ids; in evaluation
            also `unique_id` `[B]`, the number of the pair, counted from 0.

        Raises:
            ConfigError: If `params` is not a `WMTDataConfig`, or does not fit the data.
        """
        if not isinstance(params, wmt_dataloader.WMTDataConfig):
            raise errors.ConfigError(
                f"params: got a {type(params).__name__}, expected a WMTDataConfig."
            )
        params = params.replace(
            batch_by=params.batch_by or "pairs",
            sentencepiece_model_path=self.vocabulary_path,
            target_sentencepiece_model_path=(
                "" if self.task_config.share_vocabulary else self.target_vocabulary_path
            ),
        )
        return wmt_dataloader.WMTDataLoader(params).load(input_context)

    @override
    def build_losses(
        self, labels: tf.Tensor, model_outputs: tf.Tensor, aux_losses: Any = None
    ) -> tf.Tensor:
        """Computes the label-smoothed cross entropy per target token.

        Labels are target ids `[B, T]`, outputs float32 logits `[B, T, V]`.

        Returns:
            Scalar float32, in nats: the mean over this replica's target tokens, plus `aux_losses`.
            0 for a batch without tokens, as the last share of uneven data may be.
        """
        losses, weights = token_losses.padded_cross_entropy(
            model_outputs, labels, smoothing=self.task_config.model.label_smoothing
        )
        loss = tf.math.divide_no_nan(tf.reduce_sum(losses), tf.reduce_sum(weights))
        return tf.add_n([loss, *aux_losses]) if aux_losses else loss

    @override
    def build_metrics(self, training: bool = True) -> list[keras.metrics.Metric]:
        """Returns how well target tokens are predicted, given the right ones before them.

        Returns:
            `token_accuracy`, the share of tokens that were the likeliest, and in evaluation
            `perplexity`: `exp` of the mean cross entropy of all target tokens (their ends included,
            padding not) without label smoothing, in nats.
        """
        metrics: list[keras.metrics.Metric] = [token_metrics.TokenAccuracy()]
        return metrics if training else [*metrics, token_metrics.Perplexity()]

    @override
    def process_metrics(
        self,
        metrics: Sequence[keras.metrics.Metric],
        labels: Any,
        model_outputs: Any,
        **kwargs: Any,
    ) -> None:
        """Updates metrics with the real tokens of `labels`; padding does not count."""
        for metric in metrics:
            metric.update_state(labels, model_outputs, sample_weight=tf.not_equal(labels, PAD_ID))

    @override
    def count_items(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Counts the pairs of a batch, and their tokens on both sides without padding."""
        num_tokens = tf.math.count_nonzero(inputs["inputs"]) + tf.math.count_nonzero(
            inputs["targets"]
        )
        return {"examples": tf.shape(inputs["inputs"])[0], "tokens": num_tokens}

    @override
    def count_batch_examples(self, params: cfg.DataConfig) -> int:
        """Returns how many pairs a batch has at most: the shortest ones fill it with the most."""
        shortest = wmt_dataloader.get_shortest_length(self.task_config.train_data)
        return params.global_batch_size // shortest

    @override
    def split_inputs(
        self, inputs: Mapping[str, tf.Tensor]
    ) -> tuple[Mapping[str, tf.Tensor], tf.Tensor]:
        """Returns a batch of `build_inputs`, all of which the model sees, and its targets."""
        return inputs, inputs["targets"]

    @override
    def weigh_replica(self, labels: tf.Tensor) -> tf.Tensor | None:
        """Weighs a replica by its share of the target tokens of all replicas."""
        return tf_utils.share_of_replica(tf.math.count_nonzero(labels, dtype=tf.float32))

    @override
    def validation_step(
        self,
        inputs: Mapping[str, tf.Tensor],
        model: keras.Model,
        metrics: Sequence[keras.metrics.Metric] | None = None,
    ) -> dict[str, tf.Tensor]:
        """Computes the loss of the right translations, and searches for the model's own.

        Returns:
            `loss` (scalar), `inputs` `[B, S]`, `unique_ids` `[B]`, `outputs` `[B, L]` int32 ids and
            `scores` `[B]` float32, the length-normalised log-probabilities of the outputs.
        """
        logits, decoded = self._predict_and_search(inputs, model)  # [B, T, V] logits
        logs = {self.loss: self.compute_loss(inputs["targets"], logits, model, model.losses)}
        self.process_metrics(metrics or (), inputs["targets"], logits)

        return logs | {
            "inputs": inputs["inputs"],
            "unique_ids": inputs["unique_id"],
            "outputs": decoded["outputs"],
            "scores": decoded["scores"],
        }

    def _predict_and_search(
        self, inputs: Mapping[str, tf.Tensor], model: keras.Model
    ) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        """Returns the logits of the targets and what the search found; encodes sources once.

        A model of another class, or a task with an `inference_step` of its own, is called twice.
        """
        both = {"inputs": inputs["inputs"], "targets": inputs["targets"]}
        has_own_step = type(self).inference_step is not base_task.Task.inference_step
        if has_own_step or not isinstance(model, seq2seq_transformer.Seq2SeqTransformer):
            decoded = self.inference_step({"inputs": inputs["inputs"]}, model)
            return model(both, training=False), decoded
        found = model(both, training=False, search=True)
        return found["logits"], found

    @override
    def aggregate_logs(
        self,
        state: dict[int, tuple[np.ndarray, np.ndarray]] | None = None,
        step_outputs: Mapping[str, Any] | None = None,
    ) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Adds the translations of one `validation_step` to those before it.

        Returns:
            Source and output ids by the number of the pair. A pair seen twice is kept once.
        """
        translations = dict(state or {})
        logs = step_outputs or {}
        arrays = [values.of_replicas(logs[key]) for key in ("unique_ids", "inputs", "outputs")]
        for unique_ids, sources, outputs in zip(*arrays, strict=True):
            for unique_id, source, output in zip(unique_ids, sources, outputs, strict=True):
                translations[int(unique_id)] = (source, output)
        return translations

    @override
    def reduce_aggregated_logs(
        self,
        aggregated_logs: Mapping[int, tuple[np.ndarray, np.ndarray]],
        global_step: tf.Variable | None = None,
    ) -> dict[str, float]:
        """Scores the gathered translations against the references in the validation data.

        Where the evaluation covered a part of the data only, that part is scored, and the log says
        how large it was. Unless the step is unknown, the translations are written to
        `translations/step-N.tsv` below the task's `logging_dir` (`translations/NAME/` for a task
        with a name of its own, such as one of several), with the scores and their signatures in
        `step-N.json`.

        Returns:
            `sacrebleu_score` (case-sensitive), `bleu_score` (uncased, as Tensor2Tensor),
            `chrf_score`, all in [0, 100], and `exact_match`, the share of translations equal to
            their reference, in [0, 1]. Nothing without `validation_data`, which has the references.
        """
        if self.task_config.validation_data is None:
            return {}
        pairs = wmt_dataloader.read_pairs(self.task_config.validation_data)
        outputs = {unique_id: output for unique_id, (_, output) in aggregated_logs.items()}
        rows = translation_report.collect(self.target_tokenizer, pairs, outputs)
        scores = translation_report.score(rows)
        _logger.info(
            "Scored %d of %d validation pairs: %s", len(rows), len(pairs), scores.signatures
        )
        if cluster.is_chief(tf.distribute.get_strategy()):
            translation_report.publish(
                None if global_step is None else int(global_step.numpy()),
                rows,
                scores,
                directory=self._translations_dir,
                is_shown=self.task_config.print_translations is not False,
            )
        return scores.values

    @property
    def _translations_dir(self) -> str | None:
        """Directory of written translations; None for nowhere."""
        own_name = "" if self.name == _default_name(type(self)) else self.name
        parts = (self.logging_dir, translation_report.DIRECTORY, own_name)
        return file_paths.join(*parts) if self.logging_dir else None


def _default_name(task_cls: type[base_task.Task]) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", task_cls.__name__).lower()
