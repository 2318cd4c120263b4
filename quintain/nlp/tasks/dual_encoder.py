"""Retrieval: one encoder brings texts that belong together close to each other.

Shapes:
    B  pairs in the batch
    D  width of the vectors
    N  pairs of an evaluation
    S  positions
    F  text fields of an example
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.checkpoints import checkpoint_fit
from quintain.config import base_config
from quintain.core import base_task, export_base, task_factory
from quintain.modeling import tf_utils
from quintain.nlp.configs import encoders
from quintain.nlp.data import bert_inputs, data_loader_factory, dual_encoder_dataloader
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.masked import bert_vocabulary
from quintain.nlp.modeling.models import pair_encoder
from quintain.nlp.tasks import pretrained, vocabulary
from quintain.optimization.configs import ranges
from quintain.orbit import values
from quintain.settings import config_definitions as cfg

DUMMY_PATH: Final = "dummy"
"""Input path of examples of zeros, to try a model without data."""

_DUMMY_PAIRS: Final = 10
_RANKED: Final = 1_024
"""Texts whose scores against all others are in memory at a time."""

_SIDES: Final = ("left", "right")


@dataclasses.dataclass
class ModelConfig(base_config.Config):
    """An encoder of texts, and how its vectors are compared."""

    normalize: bool = True
    """Whether vectors have the length 1, so that their products are cosines."""

    max_sequence_length: encoders.Size = 64
    """Longest text; the data's `seq_length` is at most that."""

    logit_scale: ranges.Positive = 1.0
    """Factor of the products in training. Of normalised vectors 10 to 20 learns well, while 1
    hardly tells the right text from the others."""

    logit_margin: ranges.Finite = 0.0
    """What training takes off the product of texts that belong together, so that they have to be
    closer by as much."""

    bidirectional: bool = False
    """Whether the left text is looked for by the right one as well."""

    eval_top_k: tuple[encoders.Size, ...] = (1, 3, 10)
    """Numbers of nearest texts among which evaluation looks for the right one."""

    encoder: encoders.EncoderConfig = dataclasses.field(default_factory=encoders.EncoderConfig)
    """The encoder, whose pooled output is the vector."""


@dataclasses.dataclass
class DualEncoderConfig(cfg.TaskConfig):
    """Retrieval: model and data."""

    hub_module_url: str = base_config.unused(
        "",
        "Models of TensorFlow Hub can't be loaded by Keras 3; describe the encoder in "
        "task.model.encoder and give its checkpoint as task.init_checkpoint.",
    )
    """Kept for configs of the reference."""

    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    """The model."""

    recall_of_all: bool = True
    """Whether evaluation also looks for the right text among those of all its pairs, not only of
    its batch. Takes time with the square of their number."""

    train_data: cfg.DataConfig = dataclasses.field(
        default_factory=dual_encoder_dataloader.DualEncoderDataConfig
    )
    """Training data."""

    validation_data: cfg.DataConfig = dataclasses.field(
        default_factory=lambda: dual_encoder_dataloader.DualEncoderDataConfig(is_training=False)
    )
    """Evaluation data."""


@task_factory.register_task_cls(DualEncoderConfig)
class DualEncoderTask(base_task.Task):
    """Tells the right text of each left one from those of the other pairs in the batch.

    Source:
        Yang et al., 2019 (https://arxiv.org/abs/1902.08564), for the additive margin.
    """

    metric_labels: ClassVar = {
        "left_recall_of_all_at_1": base_task.MetricLabel("recall of all", best="max"),
        "left_recall_at_1": base_task.MetricLabel("recall", best="max"),
        "batch_size_per_core": base_task.MetricLabel("batch", best="max", is_minor=True),
    }

    _task_config: DualEncoderConfig

    @property
    @override
    def task_config(self) -> DualEncoderConfig:
        """The config this task was built from."""
        return self._task_config

    @property
    def _sides(self) -> tuple[str, ...]:
        """The sides from which the other is looked for."""
        return _SIDES if self.task_config.model.bidirectional else _SIDES[:1]

    @override
    def build_model(self) -> keras.Model:
        """Builds encoder and comparison.

        Raises:
            ConfigError: If the data's sequences are too long, or the vocabulary too large.
        """
        config, data = self.task_config.model, self.task_config.train_data
        length = getattr(data, "seq_length", 0)
        if length > config.max_sequence_length:
            raise errors.ConfigError(
                f"task.train_data.seq_length: got {length}, expected at most "
                f"task.model.max_sequence_length={config.max_sequence_length}."
            )
        if self._is_text and data.input_path != DUMMY_PATH:
            encoders.check_vocabulary(config.encoder, self.text_processor.vocabulary)
        return pair_encoder.DualEncoder(
            encoders.build_task_encoder(config.encoder, self.task_config, uses_pooler=True),
            max_seq_length=config.max_sequence_length,
            normalize=config.normalize,
            logit_scale=config.logit_scale,
            logit_margin=config.logit_margin,
        )

    @override
    def initialize(self, model: keras.Model) -> None:
        """Loads the encoder from `task.init_checkpoint`, if it is set.

        Raises:
            CheckpointError: If there is no checkpoint, or its encoder is of another shape.
            ConfigError: If it was trained with another vocabulary, or a pattern of
                `task.init_exclude` matches nothing.
        """
        path = self.task_config.init_checkpoint
        if not path:
            return
        if self._is_text and self.task_config.train_data.input_path != DUMMY_PATH:
            field = "task.train_data.vocab_file"
            vocabulary.check_same_copy(self.vocabulary_path, path, field=field)
        pretrained.restore_parts(
            {"encoder": model.checkpoint_items["encoder"]},
            path,
            "task.init_checkpoint",
            checkpoint_fit.name_variables(model),
            checkpoint_fit.find_excluded(model, self.task_config.init_exclude),
        )

    @override
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns batches of `train_data` or `validation_data`.

        Returns:
            `left_word_ids`, `left_mask`, `left_type_ids`, and the same of `right`, `[B, S]` int32.

        Raises:
            ConfigError: If the config contradicts itself.
            DataError: If data is missing or wrong; with file and line or record.
        """
        if params.input_path == DUMMY_PATH:
            words = tf.zeros([_DUMMY_PAIRS, getattr(params, "seq_length", 64)], tf.int32)
            names = [f"{side}_{name}" for side in _SIDES for name in ("word_ids", "type_ids")]
            batch = dict.fromkeys(names, words)
            batch |= {f"{side}_mask": tf.ones_like(words) for side in _SIDES}
            return tf.data.Dataset.from_tensors(batch).repeat(None if params.is_training else 2)
        if isinstance(params, dual_encoder_dataloader.DualEncoderDataConfig):
            params = params.replace(vocab_file=self.vocabulary_path)
        return data_loader_factory.get_data_loader(params).load(input_context)

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the mean cross entropy of finding the right text in the batch, in nats.

        Returns:
            Scalar: that of the left texts; with `bidirectional`, that of the right ones added.
        """
        del labels
        parts = [
            tf_utils.safe_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    tf.range(tf.shape(logits)[0]), tf.cast(logits, tf.float32)
                )
            )
            for logits in (model_outputs[f"{side}_logits"] for side in self._sides)
        ]
        return tf.add_n([*parts, *(aux_losses or [])])

    @override
    def build_metrics(self, training: bool | None = None) -> list[keras.metrics.Metric]:
        """Returns the recall within a batch, and how large batches are on a replica."""
        del training
        return [
            keras.metrics.Mean(name="batch_size_per_core"),
            *(
                keras.metrics.SparseTopKCategoricalAccuracy(k, name=f"{side}_recall_at_{k}")
                for k in self.task_config.model.eval_top_k
                for side in self._sides
            ),
        ]

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        del labels, kwargs
        size = tf.shape(model_outputs["left_logits"])[0]
        for metric in tf.nest.flatten(metrics):
            side, *recall = metric.name.partition("_recall_")
            if any(recall):
                metric.update_state(tf.range(size), model_outputs[f"{side}_logits"])
            else:
                metric.update_state(size)

    @override
    def count_items(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Counts pairs, and the tokens that are not padding."""
        masks = [tf.cast(inputs[f"{side}_mask"], tf.int32) for side in _SIDES]
        tokens = tf.add_n([tf.reduce_sum(mask) for mask in masks])
        return {**super().count_items(inputs), "tokens": tokens}

    @override
    def validation_step(
        self, inputs: Any, model: keras.Model, metrics: Any | None = None
    ) -> dict[str, Any]:
        """Evaluates a batch.

        Returns:
            `loss`; and for `aggregate_logs` the vectors `left` and `right`, `[B, D]`.
        """
        left, right = model.encode_pairs(inputs)
        outputs = model.compare(left, right)
        loss = self.compute_loss(inputs, outputs, model, model.losses)
        logs = self._log_step(loss, inputs, outputs, model, metrics)
        return {**logs, "left": left, "right": right}

    @override
    def aggregate_logs(
        self,
        state: dict[str, list[np.ndarray]] | None = None,
        step_outputs: Mapping[str, Any] | None = None,
    ) -> dict[str, list[np.ndarray]] | None:
        """Gathers the vectors of all steps and replicas; None without `recall_of_all`."""
        if not self.task_config.recall_of_all:
            return None
        state = state or {side: [] for side in _SIDES}
        for side, arrays in state.items():
            arrays.append(np.concatenate(values.of_replicas((step_outputs or {})[side]), axis=0))
        return state

    @override
    def reduce_aggregated_logs(
        self,
        aggregated_logs: Mapping[str, list[np.ndarray]] | None,
        global_step: tf.Variable | None = None,
    ) -> dict[str, Any]:
        """Returns the recall among the texts of all pairs, `left_recall_of_all_at_1` and so on."""
        del global_step
        if not aggregated_logs:
            return {}
        vectors = [np.concatenate(aggregated_logs[side], axis=0) for side in _SIDES]  # [N, D]
        found = {}
        for index, side in enumerate(self._sides):
            ranks = _rank(vectors[index], vectors[1 - index])
            for k in self.task_config.model.eval_top_k:
                found[f"{side}_recall_of_all_at_{k}"] = float(np.mean(ranks < k))
        return found

    @property
    def _is_text(self) -> bool:
        kind = dual_encoder_dataloader.DualEncoderDataConfig
        return isinstance(self.task_config.train_data, kind)

    @functools.cached_property
    def vocabulary_path(self) -> str:
        """File of the vocabulary, which the model directory keeps a copy of.

        Without a `vocab_file`, one of a bundled corpus is trained.

        Raises:
            ConfigError: If there is none, or the directory holds another one.
        """
        data: Any = self.task_config.train_data
        encoder: Any = self.task_config.model.encoder.get()
        if not data.vocab_file and bundled_corpora.find_name(data.input_path):
            vocabulary.train_bundled(data, self.logging_dir, vocab_size=encoder.vocab_size)
        return vocabulary.keep(
            data.vocab_file,
            self.logging_dir,
            field="task.train_data.vocab_file",
            name=vocabulary.get_copy_name(data.tokenization),
        )

    @functools.cached_property
    def text_processor(self) -> bert_inputs.TextProcessor:
        """Preprocessing of texts to the model's inputs, as in training."""
        data: Any = self.task_config.train_data
        loaded = bert_vocabulary.load(
            self.vocabulary_path, data.tokenization, lower_case=data.lower_case
        )
        return bert_inputs.TextProcessor(data.seq_length, vocabulary=loaded)

    @classmethod
    @override
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns the commands that give the vectors of texts, and the nearest of others."""
        del params
        predict = f"quintain predict --model-dir={model_dir}"
        return {
            "find": f"{predict} --candidates=texts.txt 'some text'",
            "predict": f"{predict} 'some text'",
            "serve": f"quintain serve-model --model-dir={model_dir}",
        }

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the encoder of text; of a run on other data what the default gives."""
        return TextEncoding(self, model) if self._is_text else super().build_export_module(model)


def _rank(vectors: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns `[N]`: how many rows of `others` are nearer to each of `vectors` than its own row."""
    ranks = []
    for start in range(0, len(vectors), _RANKED):
        scores = vectors[start : start + _RANKED] @ others.T  # [_RANKED, N]
        own = np.diagonal(scores, offset=start)[:, np.newaxis]
        ranks.append(np.sum(scores > own, axis=1))
    return np.concatenate(ranks)


class TextEncoding(export_base.ExportModule):
    """Turns texts into vectors, which are close where the texts belong together."""

    kind: ClassVar = "dual_encoder"

    def __init__(self, task: DualEncoderTask, model: keras.Model) -> None:
        """Takes the parts of a task.

        Raises:
            ConfigError: If left and right texts have different numbers of fields.
        """
        super().__init__(task.task_config, model)
        data: Any = task.task_config.train_data
        self.num_fields = len(data.left_text_fields)
        if len(data.right_text_fields) != self.num_fields:
            raise errors.ConfigError(
                f"task.train_data.right_text_fields: got {len(data.right_text_fields)}, and "
                f"{self.num_fields} left_text_fields. What is served takes texts of one form: "
                "train with as many fields on both sides."
            )
        self.processor = task.text_processor

    @override
    @tf.function
    def serve(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Encodes strings `[B]`, or `[B, F]` of several fields, to `vectors` `[B, D]`."""
        num = self.num_fields
        fields = tf.unstack(tf.reshape(inputs, [-1, num]), num, axis=1)  # F of [B]
        return {"vectors": self.model.encode(self.processor(fields))}

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        shape = [None] if self.num_fields == 1 else [None, self.num_fields]
        spec = tf.TensorSpec(shape, tf.string, name="inputs")
        return {
            signature: self.find_function(name).get_concrete_function(spec)
            for name, signature in function_keys.items()
        }

    @override
    def describe(self) -> dict[str, Any]:
        return {"num_fields": self.num_fields}
