"""The task of supervised fine-tuning on conversations.

Shapes:
    B  rows of the batch
    S  positions
"""

import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import base_task, export_base, task_factory
from quintain.hub import (
    chat,
    configs,
    conversations,
    heads,
    packing,
    presets,
    records,
    serving,
    task,
)
from quintain.settings import config_definitions as cfg

_logger = logging.getLogger(__name__)


@task_factory.register_task_cls(configs.SftConfig)
class SftTask(task.HubTask):
    """Teaches a causal model to answer as in conversations."""

    metric_labels: ClassVar = {
        "exact_match": base_task.MetricLabel("exact match", best="max"),
        "accuracy": base_task.MetricLabel("accuracy", best="max"),
    }

    _task_config: configs.SftConfig

    def __init__(
        self, params: cfg.TaskConfig, logging_dir: str | None = None, name: str | None = None
    ) -> None:
        """Checks the config.

        Raises:
            ConfigError: If the head is another than that of causal models.
        """
        super().__init__(params, logging_dir=logging_dir, name=name)
        if self.task_config.model.head != "causal_lm":
            raise errors.ConfigError(
                f"task.model.head: got {self.task_config.model.head!r}, expected 'causal_lm': "
                "conversations are continued by causal models only."
            )
        self._get_chat: Callable[[], chat.Chat] | None = None

    @property
    @override
    def task_config(self) -> configs.SftConfig:
        """The config this task was built from."""
        return self._task_config

    @functools.cached_property
    def template(self) -> conversations.Template:
        """How conversations become tokens."""
        tokenizer = presets.load_tokenizer(self.task_config.model.preset)
        return conversations.Template(self.task_config.template, tokenizer)

    @override
    def build_model(self) -> keras.Model:
        """Loads the preset, whose rows may hold several conversations.

        Raises:
            ConfigError: As for `HubTask`, or if the family can't share rows.
        """
        plain = super().build_model()
        # A function, in which checkpoints do not look for variables.
        self._get_chat = functools.cache(lambda: self.build_chat(plain))
        return packing.pack_model(plain) if self.task_config.packing else plain

    def build_chat(self, model: keras.Model) -> chat.Chat:
        """Returns what answers with a model of KerasHub."""
        config = self.task_config
        return chat.Chat(model, self.template, config.generation, config.model.sequence_length)

    @override
    def build_inputs(
        self,
        params: configs.HubDataConfig,  # type: ignore[override]
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        """Returns rows of conversations.

        Returns:
            `token_ids` and `padding_mask` `[B, S]` int32, the latter with the number of the
            conversation in its row; `label` and `weight` `[B, S]`.

        Raises:
            DataError: If a line is no conversation, or has no answer; with file and line.
        """
        length = self.task_config.model.sequence_length
        source = params.input_path or params.tfds_name
        tokens = [self.template.encode(turns) for _, turns in conversations.read(params)]
        fitting = [one for one in tokens if any(one.counts[1 : length + 1])]
        if len(fitting) < len(tokens):
            _logger.warning(
                "%s: %d of %d conversations are left out, whose answers begin after %d tokens "
                "(task.model.sequence_length).",
                source, len(tokens) - len(fitting), len(tokens), length,
            )  # fmt: skip
        if not fitting:
            raise errors.DataError(
                f"{source}: no conversation has an answer within {length} tokens. Set "
                "task.model.sequence_length to more."
            )
        pad_id = getattr(self.template.tokenizer, "pad_token_id", None) or 0
        columns = conversations.pack(fitting, length, pad_id, is_packed=self.task_config.packing)
        return records.to_batches(columns, params, input_context, postprocess_fn=_split)

    def read_conversations(self, params: cfg.DataConfig) -> Iterator[list[conversations.Turn]]:
        """Yields conversations whose last answer is the right one."""
        for _, turns in conversations.read(params):
            yield turns

    @override
    def aggregate_logs(self, state: Any = None, step_outputs: Any = None) -> Any:
        """Asks for `reduce_aggregated_logs`."""
        del step_outputs
        return state or [True]

    @override
    def reduce_aggregated_logs(
        self, aggregated_logs: Any, global_step: tf.Variable | None = None
    ) -> dict[str, Any]:
        """Generates answers of the evaluation data, and compares them.

        Returns:
            `exact_match`, the share of them that are right but for white space at their ends.
        """
        del aggregated_logs, global_step
        if not self.task_config.generation.num_examples or self._get_chat is None:
            return {}
        config = self.task_config
        talks = self.read_conversations(config.validation_data)
        pairs = list_questions(talks, config.generation.num_examples)
        found = [self._get_chat().answer(turns).text for turns, _ in pairs]
        right = sum(
            text.strip() == answer.strip() for text, (_, answer) in zip(found, pairs, strict=True)
        )
        _logger.info("%s -> %r", pairs[0][0][-1]["content"], found[0])
        return {"exact_match": right / len(pairs)}

    @classmethod
    @override
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns the commands that ask the model."""
        del params
        return {
            "ask": f"quintain predict --model-dir={model_dir} 'a question'",
            "serve": f"quintain serve-model --model-dir={model_dir}",
        }

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns what answers, into which adapters are merged; its signature gives logits."""
        merged = self.build_merged(model)
        return serving.ChatModule(self.task_config, merged, self.build_chat(merged))


def list_questions(
    talks: Iterable[list[conversations.Turn]], most: int
) -> list[tuple[list[conversations.Turn], str]]:
    """Returns the first conversations up to their last answer, and this answer."""
    pairs: list[tuple[list[conversations.Turn], str]] = []
    for turns in itertools.islice(talks, most):
        last = max(
            place for place, turn in enumerate(turns) if turn["role"] == conversations.ANSWERER
        )
        pairs.append((turns[:last], turns[last]["content"]))
    return pairs


def _split(batch: Mapping[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    features = {"token_ids": batch["token_ids"], "padding_mask": batch["documents"]}
    return features, {name: batch[name] for name in (heads.LABEL, heads.WEIGHT)}
