"""The task of direct preference optimisation on pairs of answers.

Shapes:
    B  pairs of the batch
    P  2, the chosen and the rejected conversation
    S  positions
    V  tokens of the vocabulary
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from typing_extensions import override

from quintain import errors
from quintain.core import base_task, task_factory
from quintain.hub import adapters, configs, conversations, heads, records, sft
from quintain.modeling import tf_utils, token_losses
from quintain.settings import config_definitions as cfg

REFERENCE: Final = "reference"
"""Log-probabilities of the reference model `[B, P]`, beside the labels."""

_FIELDS: Final = ("chosen", "rejected")

Pair = tuple[list[conversations.Turn], list[conversations.Turn]]
"""The chosen and the rejected conversation."""


@task_factory.register_task_cls(configs.DpoConfig)
class DpoTask(sft.SftTask):
    """Teaches a causal model to prefer chosen answers to rejected ones."""

    metric_labels: ClassVar = {
        "accuracy": base_task.MetricLabel("accuracy of rewards", best="max"),
        "margin": base_task.MetricLabel("margin of rewards", best="max"),
    }

    _task_config: configs.DpoConfig

    @property
    @override
    def task_config(self) -> configs.DpoConfig:
        """The config this task was built from."""
        return self._task_config

    @override
    def build_model(self) -> keras.Model:
        """Loads the preset as a model of pairs, without dropout."""
        return pair_model(super().build_model(), self.task_config.model.sequence_length)

    @override
    def build_inputs(
        self,
        params: configs.HubDataConfig,  # type: ignore[override]
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        """Returns batches of pairs, with the reference model's log-probabilities.

        Returns:
            `token_ids` and `padding_mask` `[B, P, S]` int32; `label` and `weight` `[B, P, S]`,
            `reference` `[B, P]`.

        Raises:
            DataError: If a line is no pair, or too long; with file and line.
        """
        columns = self._encode(params)
        columns[REFERENCE] = self._score_by_reference(columns, max(1, params.global_batch_size))
        return records.to_batches(columns, params, input_context, postprocess_fn=_split)

    def _encode(self, params: configs.HubDataConfig) -> dict[str, np.ndarray]:
        length = self.task_config.model.sequence_length
        rows: list[conversations.Tokens] = []
        for place, pair in read_pairs(params):
            both = [self.template.encode(turns) for turns in pair]
            for field, tokens in zip(_FIELDS, both, strict=True):
                if len(tokens.ids) - 1 > length:
                    raise errors.DataError(
                        f"{place}: {field}: got {len(tokens.ids)} tokens with its prompt, expected "
                        f"at most {length + 1}. Set task.model.sequence_length to more, or remove "
                        "the line."
                    )
            if both[0].ids == both[1].ids:
                raise errors.DataError(
                    f"{place}: chosen, rejected: got the same tokens for both, so that nothing is "
                    "preferred. Remove the line."
                )
            rows += both
        pad_id = getattr(self.template.tokenizer, "pad_token_id", None) or 0
        packed = conversations.pack(rows, length, pad_id, is_packed=False)
        return {name: part.reshape([-1, 2, length]) for name, part in packed.items()}

    def _score_by_reference(self, columns: Mapping[str, np.ndarray], batch_size: int) -> np.ndarray:
        """Returns log-probabilities `[R, P]` by the preset, as it is before the first step."""
        config = self.task_config.model
        plain = self.head.build_model(config)
        adapters.prepare(plain, config)  # Adapters add nothing yet; int8 counts.
        model = pair_model(plain, config.sequence_length)

        @tf.function(reduce_retracing=True)
        def score(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
            features, labels = _split({**batch, REFERENCE: tf.zeros([])})
            return sum_log_probabilities(model(features, training=False), labels)

        count = len(columns["token_ids"])
        parts = [
            score({name: tf.constant(part[start : start + batch_size]) for name, part in
                   columns.items()}).numpy()
            for start in range(0, count, batch_size)
        ]  # fmt: skip
        return np.concatenate(parts)

    @override
    def read_conversations(self, params: cfg.DataConfig) -> Iterator[list[conversations.Turn]]:
        """Yields the chosen conversations."""
        for _, (chosen, _) in read_pairs(params):
            yield chosen

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the mean loss of the pairs."""
        config = self.task_config
        losses = preference_losses(
            config.beta * _count_margins(labels, model_outputs), config.label_smoothing
        )
        loss = tf.math.divide_no_nan(tf.reduce_sum(losses), tf.cast(tf.size(losses), tf.float32))
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    @override
    def weigh_replica(self, labels: Any) -> tf.Tensor | None:
        """Weighs a replica by its share of the pairs."""
        return tf_utils.share_of_replica(tf.shape(labels[REFERENCE])[0])

    @override
    def build_metrics(self, training: bool = True) -> list[keras.metrics.Metric]:
        del training
        return [keras.metrics.Mean("accuracy"), keras.metrics.Mean("margin")]

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        """Counts the chosen answers of higher reward, and by how much it is higher."""
        del kwargs
        margins = self.task_config.beta * _count_margins(labels, model_outputs)
        values = {"accuracy": tf.cast(margins > 0.0, tf.float32), "margin": margins}
        for metric in tf.nest.flatten(metrics):
            metric.update_state(values[metric.name])


def read_pairs(params: cfg.DataConfig) -> Iterator[tuple[str, Pair]]:
    """Yields pairs of conversations with their places.

    A line has `chosen` and `rejected`, texts or lists of turns, and the `prompt` before them, a
    text or a list of turns. Lists that begin with the prompt, or come without one, are whole
    conversations.

    Raises:
        DataError: If a line is no pair; with file and line.
    """
    for place, row in records.read_data(params):
        prompt = row.get("prompt") or []
        if prompt:
            prompt = _check_turns(place, "prompt", prompt, "user")
        chosen, rejected = (_read_answer(place, field, row.get(field), prompt) for field in _FIELDS)
        if _find_question(chosen) != _find_question(rejected):
            raise errors.DataError(
                f"{place}: chosen, rejected: got conversations with different questions, expected "
                "two answers to one. Fix or remove the line."
            )
        yield place, (chosen, rejected)


def _check_turns(place: str, field: str, value: Any, role: str) -> list[conversations.Turn]:
    turns = [{"role": role, "content": value}] if isinstance(value, str) else value
    return conversations.check(place, turns, needs_answer=False, field=field)


def _read_answer(
    place: str, field: str, value: Any, prompt: list[conversations.Turn]
) -> list[conversations.Turn]:
    if value is None or value == "":
        raise errors.DataError(
            f"{place}: {field}: got {errors.show(value)}, expected an answer. Add it, or remove "
            "the line."
        )
    turns = _check_turns(place, field, value, conversations.ANSWERER)
    if turns[: len(prompt)] != prompt:
        turns = [*prompt, *turns]
    if turns[-1]["role"] != conversations.ANSWERER or not _find_question(turns):
        raise errors.DataError(
            f"{place}: {field}: expected a conversation that asks, and ends with a turn of "
            f"{conversations.ANSWERER!r}. Add prompt, or fix the turns."
        )
    return turns


def _find_question(turns: list[conversations.Turn]) -> list[conversations.Turn]:
    return list(itertools.takewhile(lambda turn: turn["role"] != conversations.ANSWERER, turns))


def pair_model(model: keras.Model, length: int) -> keras.Model:
    """Returns a model of pairs `[B, P, S]` with the layers of a causal model.

    These lose their dropout, without which the reference is computed.
    """
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    inputs = {
        name: keras.Input([2, length], dtype=part.dtype, name=name)
        for name, part in model.input.items()
    }
    logits = model({name: ops.reshape(part, [-1, length]) for name, part in inputs.items()})
    pairs = keras.Model(inputs, ops.reshape(logits, [-1, 2, length, logits.shape[-1]]))
    pairs.find_plain = lambda: model
    if find_kept := getattr(model, "find_kept_variables", None):
        pairs.find_kept_variables = find_kept
    return pairs


def sum_log_probabilities(logits: tf.Tensor, labels: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns the log-probabilities `[B, P]` float32 of answers, by logits `[B, P, S, V]`."""
    losses = token_losses.smoothed_cross_entropy(tf.cast(logits, tf.float32), labels[heads.LABEL])
    return -tf.reduce_sum(losses * labels[heads.WEIGHT], axis=-1)


def preference_losses(margins: tf.Tensor, label_smoothing: float) -> tf.Tensor:
    """Returns the losses `[B]` of margins of rewards.

    Source:
        Rafailov et al., 2023, eq. 7 (https://arxiv.org/abs/2305.18290).

    Args:
        margins: By how much the reward of the chosen answer is higher `[B]`.
        label_smoothing: Share of the pairs that are taken for swapped.
    """
    right, swapped = tf.math.log_sigmoid(margins), tf.math.log_sigmoid(-margins)
    return -(1.0 - label_smoothing) * right - label_smoothing * swapped


def _count_margins(labels: Mapping[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
    gains = sum_log_probabilities(logits, labels) - labels[REFERENCE]  # [B, P]
    return gains[:, 0] - gains[:, 1]


def _split(batch: Mapping[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    features = {"token_ids": batch["token_ids"], "padding_mask": batch["documents"]}
    names = (heads.LABEL, heads.WEIGHT, REFERENCE)
    return features, {name: batch[name] for name in names}
