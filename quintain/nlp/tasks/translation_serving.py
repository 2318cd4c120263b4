"""Trained models of translation: text in and text out, as SavedModels hold them.

Shapes:
    B  texts in the batch
    L  tokens of an output
    N  outputs for each text
    S  tokens of a source
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import base_task, export_base
from quintain.nlp.data import tokenizers
from quintain.nlp.modeling import int8_weights
from quintain.nlp.modeling.ops import decoding
from quintain.nlp.tasks import vocabulary
from quintain.settings import config_definitions as cfg

MAX_SOURCE_LENGTH: Final = 1_000
"""Most tokens of a source unless the caller says otherwise: memory grows by the square."""

TEXTS = tf.TensorSpec([None], tf.string)

_SPACES: Final = "".join(f"\\x{{{number:x}}}" for number in range(2**16) if chr(number).isspace())
_BLANK: Final = f"[{_SPACES}]*"
"""What `str.strip` leaves nothing of; TensorFlow's own knows the spaces of ASCII only."""


class TextTranslation(export_base.ExportModule):
    """Translates text. The vocabulary and the settings of the search travel with the model."""

    kind: ClassVar = "translation"

    function_keys: ClassVar = {
        "serve": tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY,
        "serve_single": "serve_single",
        "serve_n_best": "serve_n_best",
        "serve_tokens": "serve_tokens",
    }

    def __init__(
        self,
        task: Any,
        model: keras.Model,
        options: decoding.DecodingOptions,
        max_source_length: int,
    ) -> None:
        """Takes the parts of a task and its `Seq2SeqTransformer`; longer sources are an error."""
        super().__init__(task.task_config, model)
        self.options = options
        self.max_source_length = max_source_length
        self.weights: int8_weights.Int8Model | None = None
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
        return self.model.decode(inputs, self.options, weights=self.weights)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def serve_n_best(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates `[B]` strings: `outputs` `[B, N]`, the best first, and `scores` `[B, N]`.

        Scores are length-normalised log-probabilities. Blank texts, and those without any token,
        become empty ones, and score 0.
        """
        ids = self.tokenizer.tokenize(inputs)
        longest = tf.reduce_max(tf.concat([[0], tf.cast(ids.row_lengths(), tf.int32)], axis=0))
        message = (
            f"inputs: a text has more than {self.max_source_length} tokens, the limit that the "
            "model was exported with."
        )
        check = tf.debugging.Assert(longest <= self.max_source_length, [message, longest])
        with tf.control_dependencies([check]):
            found = self.serve_tokens(ids.to_tensor())
        shape = tf.shape(found["outputs"])  # [B, N, L]
        texts = self.detokenize(tf.reshape(found["outputs"], [shape[0] * shape[1], shape[2]]))
        is_empty = tf.strings.regex_full_match(inputs, _BLANK) | (ids.row_lengths() <= 1)
        is_blank = is_empty[:, tf.newaxis]  # [B, 1]
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
        if self.options.precision == "int8":
            self.weights = int8_weights.Int8Model(self.model)
            # The SavedModel is to hold these in place of the model's own.
            model = self.model
            del self.model
            object.__setattr__(self, "model", model)
        # They say their inputs themselves. Concrete ones would be traced again while saving.
        return {signature: self.find_function(name) for name, signature in function_keys.items()}

    @override
    def describe(self) -> dict[str, Any]:
        return {
            "decoding": dataclasses.asdict(self.options),
            "max_source_length": self.max_source_length,
        }


class ServesTranslations(base_task.Task):
    """Serving interface of translation."""

    @classmethod
    @override
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns the commands that translate a sentence, one of the corpus of the package."""
        path = getattr(params.validation_data, "input_path", "")
        is_bundled = isinstance(path, str) and path.startswith("bundled:numbers_and_dates")
        sentence = "Sunday, the twenty-second of March" if is_bundled else "..."
        return {
            "translate": f'quintain translate --model-dir={model_dir} "{sentence}"',
            "serve": f"quintain serve-model --model-dir={model_dir}",
        }

    @classmethod
    @override
    def bind_to_run(cls, params: Any, model_dir: str) -> cfg.TaskConfig:
        """Returns a config whose vocabulary is the one that the run kept."""
        sides: tuple[vocabulary.Side, ...] = ("source", "target")
        for side in sides[:1] if params.share_vocabulary else sides:
            if vocabulary.find(model_dir, side) is None:
                raise errors.CheckpointError(
                    f"model_dir: got {model_dir!r}, which holds no "
                    f"{vocabulary.get_file_name(side)}, without which the weights mean nothing. "
                    "Copy it from where the run was trained."
                )
        return params.replace(sentencepiece_model_path="", target_sentencepiece_model_path="")

    @override
    def build_export_module(
        self, model: keras.Model, *, max_source_length: int | None = None, **options: Any
    ) -> export_base.ExportModule:
        """Returns the translation of text, with the vocabulary and the settings of the search.

        Sources have at most `max_source_length` tokens; None takes `MAX_SOURCE_LENGTH`. Options are
        fields of `decoding.DecodingOptions`; those left out are the run's own.

        Raises:
            ConfigError: If an option does not exist, or is out of its range.
        """
        most = MAX_SOURCE_LENGTH if max_source_length is None else max_source_length
        if most < 1:
            raise errors.ConfigError(f"max_source_length: got {most!r}, expected an integer >= 1.")
        return TextTranslation(self, model, model.decoding.override(**options), most)
