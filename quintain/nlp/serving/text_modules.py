"""Language models with text in and text out, as SavedModels hold them.

Shapes:
    B  texts in the batch
    F  text fields of an example
    L  tokens of an output
    N  outputs for each text
    S  tokens of a source
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import export_base
from quintain.nlp.data import tokenizers
from quintain.nlp.modeling.ops import decoding
from quintain.nlp.tasks import sentence_prediction, translation

TEXTS = tf.TensorSpec([None], tf.string)


class TextTranslation(export_base.ExportModule):
    """Translates text. The vocabulary and the settings of the search travel with the model."""

    def __init__(
        self,
        task: translation.TranslationTask,
        model: keras.Model,
        options: decoding.DecodingOptions,
        max_source_length: int,
    ) -> None:
        """Stores the parts.

        Args:
            task: The task that the model was trained in.
            model: A `Seq2SeqTransformer`.
            options: How translations are searched for.
            max_source_length: Most tokens of a source; longer ones are an error.
        """
        super().__init__(task.task_config, model)
        self.options = options
        self.max_source_length = max_source_length
        self.tokenizer: tokenizers.SentencePieceTokenizer = task.tokenizer
        self.target_tokenizer: tokenizers.SentencePieceTokenizer = task.target_tokenizer

    @tf.function(input_signature=[TEXTS])
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids `[B, S]` of texts, each followed by EOS."""
        return self.tokenizer.tokenize(texts)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the texts `[B]` of ids, each up to its first EOS."""
        return self.target_tokenizer.detokenize(ids)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="inputs")])
    def serve_tokens(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates ids `[B, S]`, padded with 0: `outputs` `[B, N, L]` and `scores` `[B, N]`."""
        return self.model.decode(inputs, self.options)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def serve_n_best(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates `[B]` strings: `outputs` `[B, N]`, the best first, and `scores` `[B, N]`.

        Scores are length-normalised log-probabilities. Blank texts stay blank, and score 0.
        """
        ids = self.tokenizer.tokenize(inputs)
        longest = tf.reduce_max(tf.concat([[0], tf.cast(ids.row_lengths(), tf.int32)], axis=0))
        message = (
            f"inputs: a text has more than {self.max_source_length} tokens, the limit that the "
            "model was exported with."
        )
        check = tf.debugging.Assert(longest <= self.max_source_length, [message, longest])
        with tf.control_dependencies([check]):
            found = self.model.decode(ids.to_tensor(), self.options)
        shape = tf.shape(found["outputs"])  # [B, N, L]
        texts = self.detokenize(tf.reshape(found["outputs"], [shape[0] * shape[1], shape[2]]))
        is_blank = tf.strings.length(tf.strings.strip(inputs))[:, tf.newaxis] == 0
        return {
            "outputs": tf.where(is_blank, "", tf.reshape(texts, shape[:2])),
            "scores": tf.where(is_blank, 0.0, found["scores"]),
        }

    @override
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def serve(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates `[B]` strings: `outputs` `[B]` strings and `scores` `[B]`."""
        return {name: value[:, 0] for name, value in self.serve_n_best(inputs).items()}

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="inputs")])
    def serve_single(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates one string: `outputs`, a string, and `scores`, a number."""
        return {name: value[0] for name, value in self.serve(inputs[tf.newaxis]).items()}

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        return {
            signature: _get_function(self, name).get_concrete_function()
            for name, signature in function_keys.items()
        }


class TextPrediction(export_base.ExportModule):
    """Classifies texts or pairs of texts, or gives them a number."""

    def __init__(
        self, task: sentence_prediction.SentencePredictionTask, model: keras.Model
    ) -> None:
        """Stores the parts.

        Args:
            task: The task that the model was trained in, on text.
            model: A `BertClassifier`.

        Raises:
            ConfigError: If the task's data are no text.
        """
        super().__init__(task.task_config, model)
        self.processor = task.text_processor
        self.predictor = task.build_predictor(model)
        self.num_fields = task.num_fields

    @override
    @tf.function
    def serve(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts strings `[B]`, or `[B, F]` of several fields.

        Returns:
            What `SentencePredictionTask.build_predictor` gives.
        """
        return self.predictor(inputs)

    @tf.function
    def serve_single(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts one string, or one example `[F]` of several fields."""
        return {name: value[0] for name, value in self.predictor(inputs[tf.newaxis]).items()}

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        example = [] if self.num_fields == 1 else [self.num_fields]
        shapes = {"serve": [None, *example], "serve_single": example}
        return {
            signature: _get_function(self, name).get_concrete_function(
                tf.TensorSpec(shapes[name], tf.string, name="inputs")
            )
            for name, signature in function_keys.items()
        }


def _get_function(module: export_base.ExportModule, name: str) -> Any:
    function = getattr(module, name, None)
    if not hasattr(function, "get_concrete_function"):
        raise errors.ConfigError(
            f"function_keys: {type(module).__name__} has no function {name!r}."
        )
    return function
