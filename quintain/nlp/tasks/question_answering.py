"""Question answering: the part of a paragraph that answers a question.

Shapes:
    B  windows in the batch
    S  positions
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import base_config
from quintain.core import base_task, task_factory
from quintain.nlp.configs import encoders
from quintain.nlp.data import (
    bert_inputs,
    data_loader_factory,
    question_answering_dataloader,
)
from quintain.nlp.data.labelled_tokens import squad_features
from quintain.nlp.metrics import answer_scores
from quintain.nlp.modeling import models
from quintain.nlp.tasks import token_task
from quintain.optimization.configs import ranges
from quintain.orbit import values
from quintain.reference import reference_names
from quintain.settings import config_definitions as cfg

__getattr__ = reference_names.refusing(__name__)

DUMMY_PATH: Final = "dummy"
"""Input path of examples of zeros, to try a model without data."""


@dataclasses.dataclass
class ModelConfig(base_config.Config):
    """A labeller of spans."""

    encoder: encoders.EncoderConfig = dataclasses.field(default_factory=encoders.EncoderConfig)
    """The encoder."""


@dataclasses.dataclass
class QuestionAnsweringConfig(cfg.TaskConfig):
    """Question answering: model, data and choice of answers."""

    hub_module_url: str = base_config.unused(
        "",
        "Models of TensorFlow Hub can't be loaded by Keras 3; describe the encoder in "
        "task.model.encoder and give its checkpoint as task.init_checkpoint.",
    )
    """Kept for configs of the reference."""

    n_best_size: ranges.Size = 20
    """Likeliest begins and ends of a window that are looked at, and answers that are kept."""

    max_answer_length: ranges.Size = 30
    """Most tokens of an answer."""

    null_score_diff_threshold: ranges.Finite = 0.0
    """With `version_2_with_negative`: no answer is given where its score is larger than that of
    the best one by more than this."""

    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    """The model."""

    train_data: cfg.DataConfig = dataclasses.field(
        default_factory=question_answering_dataloader.QADataConfig
    )
    """Training data."""

    validation_data: cfg.DataConfig = dataclasses.field(
        default_factory=lambda: question_answering_dataloader.QADataConfig(is_training=False)
    )
    """Evaluation data: JSON of SQuAD."""


@dataclasses.dataclass
class RawAggregatedResult:
    """Logits of a window."""

    unique_id: int
    """Id of the window."""

    start_logits: np.ndarray
    """`[S]` logits of begins."""

    end_logits: np.ndarray
    """`[S]` logits of ends."""

    start_indexes: list[int] | None = None
    """Kept for programs of the reference, where XLNet has them."""

    end_indexes: list[int] | None = None
    """Likewise."""

    class_logits: float | None = None
    """Likewise."""


class QuestionAnsweringModule(token_task.TokenModule):
    """Predicts where answers begin and end."""

    kind: ClassVar = "question_answering"
    examples = "questions.jsonl"

    @override
    def name_outputs(self, outputs: Any) -> dict[str, tf.Tensor]:
        return {"start_logits": outputs[0], "end_logits": outputs[1]}

    @override
    def describe(self) -> dict[str, Any]:
        data = self.params.validation_data
        ranking = dataclasses.asdict(build_ranking_settings(self.params))
        windows = dataclasses.asdict(
            squad_features.WindowSettings(data.seq_length, data.query_length, data.doc_stride)
        )
        return {**super().describe(), "windows": windows, "ranking": ranking}


def build_ranking_settings(config: Any) -> squad_features.RankingSettings:
    """Returns how a `QuestionAnsweringConfig` chooses answers."""
    return squad_features.RankingSettings(
        config.n_best_size,
        config.max_answer_length,
        config.validation_data.version_2_with_negative,
        config.null_score_diff_threshold,
    )


@task_factory.register_task_cls(QuestionAnsweringConfig)
class QuestionAnsweringTask(token_task.TokenTask):
    """Finds the answer to a question in a paragraph.

    Source:
        Devlin et al., 2019, sections 4.2 and 4.3 (https://arxiv.org/abs/1810.04805).
    """

    vocabulary_data = "validation_data"
    metric_labels: ClassVar = {"final_f1": base_task.MetricLabel("answer F1", best="max")}
    export_module = QuestionAnsweringModule

    def __init__(
        self, params: cfg.TaskConfig, logging_dir: str | None = None, name: str | None = None
    ) -> None:
        """Stores the config."""
        super().__init__(params, logging_dir=logging_dir, name=name)
        self._evaluated: Any = None

    @property
    @override
    def lower_case(self) -> bool:
        return bool(self._vocabulary_config.do_lower_case)

    @override
    def build_model(self) -> keras.Model:
        """Builds encoder and head."""
        config = self._model_config
        stddev = getattr(config.encoder.get(), "initializer_range", 0.02)
        return models.BertSpanLabeler(
            network=self.build_encoder(),
            initializer=keras.initializers.TruncatedNormal(stddev=stddev),
        )

    @override
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns batches; see `QuestionAnsweringDataLoader.load`.

        Raises:
            ConfigError: If evaluation is given no JSON, or there is no vocabulary.
            DataError: If data is missing or wrong.
        """
        if params.input_path == DUMMY_PATH:
            return _build_dummy_data(params)
        if isinstance(params, question_answering_dataloader.QADataConfig) and self.vocabulary_path:
            shared = ("tokenization", "do_lower_case")
            params = params.replace(
                vocab_file=self.vocabulary_path,
                **{name: getattr(self._vocabulary_config, name) for name in shared},
            )
        loader = data_loader_factory.get_data_loader(params)
        dataset = loader.load(input_context)
        if not params.is_training:
            if not getattr(loader, "windows", None):
                raise errors.ConfigError(
                    f"task.validation_data.input_path: got {params.input_path!r}, expected JSON of "
                    "SQuAD (.json or .json.gz): records have no paragraphs to take answers from."
                )
            self._evaluated = loader
        return dataset

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the mean of the cross entropies of begins and ends, in nats.

        Labels are `start_positions` and `end_positions` `[B]`; outputs the logits `[B, S]` of both.
        """
        losses = [
            tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    tf.reshape(labels[name], [-1]), tf.cast(logits, tf.float32)
                )
            )
            for name, logits in zip(
                ("start_positions", "end_positions"), model_outputs, strict=True
            )
        ]
        loss = tf.add_n(losses) / 2.0
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    @override
    def build_metrics(self, training: bool | None = None) -> list[keras.metrics.Metric]:
        """Returns the accuracies of begins and ends."""
        del training
        return [
            keras.metrics.SparseCategoricalAccuracy(name="start_position_accuracy"),
            keras.metrics.SparseCategoricalAccuracy(name="end_position_accuracy"),
        ]

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        del kwargs
        by_name = {metric.name: metric for metric in tf.nest.flatten(metrics)}
        for side, logits in zip(("start", "end"), model_outputs, strict=True):
            positions = tf.reshape(labels[f"{side}_positions"], [-1])
            by_name[f"{side}_position_accuracy"].update_state(positions, logits)

    @override
    def process_compiled_metrics(
        self, compiled_metrics: Any, labels: Any, model_outputs: Any
    ) -> None:
        start_logits, end_logits = model_outputs
        compiled_metrics.update_state(
            labels, {"start_positions": start_logits, "end_positions": end_logits}
        )

    @override
    def validation_step(
        self, inputs: Any, model: keras.Model, metrics: Any | None = None
    ) -> dict[str, Any]:
        """Evaluates a batch.

        Returns:
            `loss`; and for `aggregate_logs` `unique_ids` `[B]`, and `start_logits` and `end_logits`
            `[B, S]`.
        """
        features, labels = self.split_inputs(inputs)
        outputs = self.inference_step(features, model)
        loss = self.compute_loss(labels, outputs, model, model.losses)
        logs = self._log_step(loss, labels, outputs, model, metrics)
        ids = features.get("unique_ids")
        if ids is None:
            return logs
        return {**logs, "unique_ids": ids, "start_logits": outputs[0], "end_logits": outputs[1]}

    @override
    def aggregate_logs(
        self,
        state: list[RawAggregatedResult] | None = None,
        step_outputs: Mapping[str, Any] | None = None,
    ) -> list[RawAggregatedResult]:
        """Gathers the logits of all windows."""
        state = state or []
        outputs = step_outputs or {}
        if "unique_ids" in outputs:
            ids, starts, ends = (
                np.concatenate(values.of_replicas(outputs[name]), axis=0)
                for name in ("unique_ids", "start_logits", "end_logits")
            )
            for one in zip(ids.reshape(-1).tolist(), starts, ends, strict=True):
                state.append(RawAggregatedResult(*one))
        return state

    @override
    def reduce_aggregated_logs(
        self,
        aggregated_logs: list[RawAggregatedResult] | None,
        global_step: tf.Variable | None = None,
    ) -> dict[str, float]:
        """Computes exact match and F1 of the answers, as `answer_scores` gives them."""
        del global_step
        if not aggregated_logs or self._evaluated is None:
            return {}
        rankings = self.rank_answers(aggregated_logs)
        answers = {
            one.qas_id: [text for _, text in one.answers] for one in self._evaluated.questions
        }
        predictions = {name: ranking.best for name, ranking in rankings.items()}
        if not self.task_config.validation_data.version_2_with_negative:
            return answer_scores.score(answers, predictions)
        odds = {name: ranking.null_odds for name, ranking in rankings.items()}
        return answer_scores.score_with_no_answers(answers, predictions, odds)

    def rank_answers(self, results: list[RawAggregatedResult]) -> dict[str, squad_features.Ranking]:
        """Returns the answers to the questions of the evaluation data, by their ids."""
        found = {one.unique_id: (one.start_logits, one.end_logits) for one in results}
        by_question: dict[int, list[Any]] = {}
        for window in self._evaluated.windows:
            logits = found.get(int(window.example["unique_ids"][0]))
            if logits is not None:
                by_question.setdefault(window.index, []).append((window, *logits))
        settings = build_ranking_settings(self.task_config)
        questions = self._evaluated.questions
        return {
            questions[index].qas_id: squad_features.rank(questions[index], windows, settings)
            for index, windows in by_question.items()
        }


def _build_dummy_data(params: cfg.DataConfig) -> tf.data.Dataset:
    labels = {"start_positions": tf.zeros([1], tf.int32), "end_positions": tf.ones([1], tf.int32)}
    length = getattr(params, "seq_length", 384)
    dummy = bert_inputs.repeat_dummy(length, labels, is_training=params.is_training)
    return dummy.map(lambda batch: (batch, {name: batch.pop(name) for name in labels}))


def predict(
    task: QuestionAnsweringTask, params: cfg.DataConfig, model: keras.Model
) -> tuple[dict[str, str], dict[str, list[dict[str, Any]]], dict[str, float]]:
    """Answers the questions of JSON files.

    Args:
        task: The task.
        params: The data.
        model: A model of the task.

    Returns:
        The answers; the likeliest answers with `text`, `probability`, `start_logit` and
        `end_logit`; and, with `version_2_with_negative`, by how much likelier no answer is. All are
        by the ids of the questions.
    """
    step = tf.function(lambda features: task.inference_step(features, model))
    results: list[RawAggregatedResult] = []
    for features, _ in task.build_inputs(params.replace(is_training=False)):
        starts, ends = step(features)
        outputs = {"unique_ids": features["unique_ids"], "start_logits": starts}
        results = task.aggregate_logs(results, {**outputs, "end_logits": ends})
    rankings = task.rank_answers(results)
    has_null = task.task_config.validation_data.version_2_with_negative
    return (
        {name: ranking.best for name, ranking in rankings.items()},
        {name: describe_answers(ranking) for name, ranking in rankings.items()},
        {name: ranking.null_odds for name, ranking in rankings.items()} if has_null else {},
    )


def describe_answers(ranking: squad_features.Ranking) -> list[dict[str, Any]]:
    """Returns the likeliest answers as plain data, with their probabilities among each other."""
    scores = np.array([answer.score for answer in ranking.answers])
    odds = np.exp(scores - scores.max()) if len(scores) else scores
    return [
        {
            "text": answer.text,
            "probability": float(probability),
            "start_logit": answer.start_logit,
            "end_logit": answer.end_logit,
        }
        for answer, probability in zip(ranking.answers, odds / odds.sum(), strict=True)
    ]
