"""Base of tasks that predict something of the tokens of a text: their vocabulary and serving.

Shapes:
    B  examples in the batch
    S  positions
    W  words
"""

import abc
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import base_task, export_base
from quintain.nlp.configs import encoders
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.labelled_tokens import token_examples
from quintain.nlp.data.masked import bert_vocabulary
from quintain.nlp.tasks import pretrained, vocabulary
from quintain.settings import config_definitions as cfg

_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


class TokenTask(base_task.Task, abc.ABC):
    """Fine-tunes an encoder on tokens, which a config of data cuts from text."""

    vocabulary_data: ClassVar = "train_data"
    """The data config of the task whose `vocab_file` holds for it."""

    export_module: ClassVar[type["TokenModule"]]
    """Serves the task's models that have a vocabulary."""

    @property
    def _model_config(self) -> Any:
        return self.task_config.model

    @property
    def _vocabulary_config(self) -> Any:
        return getattr(self.task_config, self.vocabulary_data)

    @property
    @abc.abstractmethod
    def lower_case(self) -> bool:
        """Whether case does not count."""

    @functools.cached_property
    def vocabulary_path(self) -> str:
        """File of the vocabulary, which the model directory keeps a copy of; empty without one.

        Raises:
            ConfigError: If it is missing, or the directory holds another one.
        """
        path = bundled_corpora.find_file(getattr(self._vocabulary_config, "vocab_file", ""))
        if not path:
            return ""
        return vocabulary.keep(
            path,
            self.logging_dir,
            field=f"task.{self.vocabulary_data}.vocab_file",
            name=vocabulary.get_copy_name(self._vocabulary_config.tokenization),
        )

    @functools.cached_property
    def vocabulary(self) -> bert_vocabulary.BertVocabulary | None:
        """The vocabulary, which the encoder has to have room for; None without a file.

        Raises:
            ConfigError: If the encoder knows fewer tokens.
        """
        if not self.vocabulary_path:
            return None
        loaded = bert_vocabulary.load(
            self.vocabulary_path,
            self._vocabulary_config.tokenization,
            lower_case=self.lower_case,
            field=f"task.{self.vocabulary_data}.vocab_file",
        )
        encoders.check_vocabulary(self._model_config.encoder, loaded)
        return loaded

    def build_encoder(self) -> Any:
        """Builds the encoder of the config."""
        return encoders.build_task_encoder(
            self._model_config.encoder, self.task_config, uses_pooler=False
        )

    @override
    def initialize(self, model: keras.Model) -> None:
        """Loads the encoder from `init_checkpoint`.

        Raises:
            CheckpointError: If there is no checkpoint, or its encoder is of another shape.
            ConfigError: If it was trained with another vocabulary.
        """
        pretrained.restore_encoder(
            model,
            self.task_config,
            self.vocabulary_path,
            field=f"task.{self.vocabulary_data}.vocab_file",
        )

    @override
    def count_items(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Counts examples, and the tokens that are not padding."""
        features, _ = self.split_inputs(inputs)
        tokens = tf.reduce_sum(tf.cast(features["input_mask"], tf.int32))
        return {**super().count_items(inputs), "tokens": tokens}

    @classmethod
    @override
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns the commands that use the model on text, if it has a vocabulary."""
        if not getattr(getattr(params, cls.vocabulary_data), "vocab_file", ""):
            return {}
        return {
            "predict": f"quintain predict --model-dir={model_dir} < {cls.export_module.examples}",
            "serve": f"quintain serve-model --model-dir={model_dir}",
        }

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the prediction for tokens with their vocabulary; without one, for ids alone."""
        if self.vocabulary is None:
            return super().build_export_module(model)
        return self.export_module(self, model, self.vocabulary)


class TokenModule(export_base.ExportModule, abc.ABC):
    """A model of token ids, with the vocabulary that cuts words into them."""

    function_keys: ClassVar = {
        "serve": tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY,
        "tokenize": "tokenize",
    }

    examples: ClassVar[str]
    """Name of a file to predict from, for suggested commands."""

    def __init__(
        self, task: Any, model: keras.Model, vocabulary: bert_vocabulary.BertVocabulary
    ) -> None:
        """Stores the parts."""
        super().__init__(task.task_config, model, task.inference_step)
        self.vocabulary = vocabulary

    @abc.abstractmethod
    def name_outputs(self, outputs: Any) -> dict[str, tf.Tensor]:
        """Returns the outputs of the model by their names in the signature."""

    @override
    @tf.function
    def serve(
        self, input_word_ids: tf.Tensor, input_mask: tf.Tensor, input_type_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Runs the model on ids `[B, S]` int32."""
        inputs = dict(zip(_INPUTS, (input_word_ids, input_mask, input_type_ids), strict=True))
        return self.name_outputs(self.inference_step(inputs))

    @tf.function
    def tokenize(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        """Cuts words `[W]` into tokens; see `token_examples.tokenize`."""
        return token_examples.tokenize(self.vocabulary, words)

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        ids = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in _INPUTS}
        specs = {"serve": ids, "tokenize": {"words": tf.TensorSpec([None], tf.string, "words")}}
        return {
            signature: self.find_function(name).get_concrete_function(**specs[name])
            for name, signature in function_keys.items()
        }

    @override
    def describe(self) -> dict[str, Any]:
        """Returns what a program needs to make the inputs: positions and ids of special tokens."""
        special = token_examples.SpecialIds.of(self.vocabulary)
        return {"seq_length": self.params.train_data.seq_length, "special_ids": list(special)}
