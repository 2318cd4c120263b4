"""Serving modules with the signatures of the Model Garden: ids, or serialised examples.

`quintain export` writes models that take and give text, see `Task.build_export_module`.

Shapes:
    B  examples in the batch
    C  classes
    M  masked positions
    S  positions; source tokens
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import base_config
from quintain.core import export_base
from quintain.nlp.data import bert_inputs, tokenizers
from quintain.nlp.data.masked import bert_vocabulary
from quintain.reference import reference_names

_IDS = ("input_word_ids", "input_mask", "input_type_ids")
_OLD_NAMES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}


__getattr__ = reference_names.refusing(__name__)


def features_to_int32(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns tensors by name, with int32 in place of int64, which TPUs do not take."""
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in features.items()
    }


class _IdsModule(export_base.ExportModule):
    """A module whose functions take ids or serialised `tf.train.Example`s with ids."""

    functions: ClassVar[tuple[str, ...]] = ("serve", "serve_examples")
    """The functions that may become signatures."""

    @property
    def input_word_ids_field(self) -> str:
        """Name of the ids of words in records."""
        return self._stored_name("input_word_ids")

    @property
    def input_type_ids_field(self) -> str:
        """Name of the ids of segments in records."""
        return self._stored_name("input_type_ids")

    def _stored_name(self, name: str) -> str:
        return name if self.params.use_v2_feature_names else _OLD_NAMES.get(name, name)

    def _parse_examples(self, examples: tf.Tensor, lengths: Mapping[str, int | None]) -> Any:
        """Returns the features of serialised examples by the names that models call them by."""
        stored = {name: self._stored_name(name) for name in lengths}
        features = tf.io.parse_example(
            examples,
            {
                stored[name]: tf.io.FixedLenFeature([length], tf.int64)
                for name, length in lengths.items()
            },
        )
        return features_to_int32({name: features[stored[name]] for name in lengths})

    def _find_inputs(self) -> tuple[str, ...]:
        """Returns the arguments of `serve` in its signature."""
        return _IDS

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> dict[str, Any]:
        """Returns the functions to export.

        Args:
            function_keys: The names of signatures by those of functions.

        Raises:
            ConfigError: If a function may not become a signature.
        """
        for name in function_keys:
            check_function(self, name, self.functions)
        examples = tf.TensorSpec([None], tf.string, name="examples")
        ids = {
            name: tf.TensorSpec([None, None], tf.int32, name=name) for name in self._find_inputs()
        }
        traced: dict[str, Any] = {name: getattr(self, name) for name in function_keys}
        return {
            signature: traced[name].get_concrete_function(**ids)
            if name == "serve"
            else traced[name].get_concrete_function(examples)
            for name, signature in function_keys.items()
        }


def check_function(module: export_base.ExportModule, name: str, functions: tuple[str, ...]) -> None:
    """Checks that a function of a module may become a signature.

    Raises:
        ConfigError: If not.
    """
    if name not in functions:
        raise errors.ConfigError(
            f"function_keys: got {name!r}, expected one of {', '.join(functions)} of "
            f"{type(module).__name__}.{errors.suggest(name, functions)}"
        )


def _complete(
    word_ids: tf.Tensor, mask: tf.Tensor | None, type_ids: tf.Tensor | None
) -> dict[str, tf.Tensor]:
    """Returns the inputs of an encoder by name; those that are not given are made of the ids."""
    return {
        "input_word_ids": word_ids,
        "input_mask": tf.cast(tf.not_equal(word_ids, 0), word_ids.dtype) if mask is None else mask,
        "input_type_ids": tf.zeros_like(word_ids) if type_ids is None else type_ids,
    }


class SentencePrediction(_IdsModule):
    """Classifies texts that are ids, serialised ids or serialised texts."""

    functions = ("serve", "serve_examples", "serve_text_examples")

    @dataclasses.dataclass
    class Params(base_config.Config):
        """Description of the inputs."""

        inputs_only: bool = True
        """Whether word ids are the only input: mask and types are made of them."""

        parse_sequence_length: int | None = None
        """Positions of an example. Needed by the functions that take serialised examples."""

        use_v2_feature_names: bool = True
        """Whether serialised examples say `input_word_ids`, `input_type_ids` instead of
        `input_ids`, `segment_ids`."""

        text_fields: list[str] | None = None
        """Features that hold the texts, for `serve_text_examples`."""

        tokenization: bert_vocabulary.Tokenization = "WordPiece"
        """What kind of vocabulary `vocab_file` is."""

        vocab_file: str = ""
        """WordPiece vocabulary or SentencePiece model."""

        lower_case: bool = True
        """Whether case does not count."""

        preprocessing_hub_module_url: str = base_config.unused(
            "", "Give the vocabulary as vocab_file."
        )
        """Kept for programs of the reference."""

    def __init__(
        self,
        params: Params,
        model: Any,
        inference_step: Callable[..., Any] | None = None,
    ) -> None:
        """Stores the parts, and loads the vocabulary if there are `text_fields`.

        Args:
            params: What the inputs are.
            model: A `BertClassifier`, or what takes the same inputs.
            inference_step: Runs the model, as for `ExportModule`.

        Raises:
            ConfigError: If there are `text_fields` without `parse_sequence_length`.
        """
        super().__init__(params, model, inference_step)
        self._processor = None
        if params.text_fields:
            if not params.parse_sequence_length:
                raise errors.ConfigError(
                    "parse_sequence_length: missing; texts need it to be cut and padded."
                )
            self._processor = bert_inputs.TextProcessor(
                params.parse_sequence_length,
                params.vocab_file,
                params.tokenization,
                params.lower_case,
                params.preprocessing_hub_module_url,
            )

    def _predict(
        self, word_ids: tf.Tensor, mask: tf.Tensor | None, type_ids: tf.Tensor | None
    ) -> tf.Tensor:
        return self.inference_step(_complete(word_ids, mask, type_ids))

    @override
    @tf.function
    def serve(
        self,
        input_word_ids: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        input_type_ids: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Predicts ids `[B, S]` int32: `outputs`, logits `[B, C]`."""
        return {"outputs": self._predict(input_word_ids, input_mask, input_type_ids)}

    @tf.function
    def serve_probability(
        self,
        input_word_ids: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        input_type_ids: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Predicts ids `[B, S]` int32: `outputs`, probabilities `[B, C]`."""
        logits = self._predict(input_word_ids, input_mask, input_type_ids)
        return {"outputs": tf.nn.softmax(logits)}

    @tf.function
    def serve_examples(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts serialised examples `[B]` with ids, as `serve`."""
        length = self.params.parse_sequence_length
        return self.serve(
            **self._parse_examples(inputs, dict.fromkeys(self._find_inputs(), length))
        )

    @tf.function
    def serve_text_examples(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts serialised examples `[B]` with texts, as `serve`.

        Raises:
            ConfigError: If there are no `text_fields`.
        """
        if self._processor is None:
            raise errors.ConfigError("text_fields: missing; expected the features with the texts.")
        fields = self.params.text_fields
        text = tf.io.FixedLenFeature([], tf.string)
        features = tf.io.parse_example(inputs, dict.fromkeys(fields, text))
        ids = self._processor([features[name] for name in fields])
        return self.serve(**{name: ids[name] for name in self._find_inputs()})

    @override
    def _find_inputs(self) -> tuple[str, ...]:
        return _IDS[:1] if self.params.inputs_only else _IDS


class QuestionAnswering(_IdsModule):
    """Finds begins and ends of answers in ids or serialised ids."""

    @dataclasses.dataclass
    class Params(base_config.Config):
        """Description of the inputs."""

        parse_sequence_length: int | None = None
        """Positions of a serialised example."""

        use_v2_feature_names: bool = True
        """Whether serialised examples say `input_word_ids`, `input_type_ids` instead of
        `input_ids`, `segment_ids`."""

    def __init__(
        self, params: Params, model: Any, inference_step: Callable[..., Any] | None = None
    ) -> None:
        """Stores the parts.

        Args:
            params: What the inputs are.
            model: A `BertSpanLabeler`, or what gives logits of begins and ends.
            inference_step: Runs the model, as for `ExportModule`.
        """
        super().__init__(params, model, inference_step)

    @override
    @tf.function
    def serve(
        self,
        input_word_ids: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        input_type_ids: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Predicts ids `[B, S]` int32: `start_logits` and `end_logits` `[B, S]`."""
        inputs = _complete(input_word_ids, input_mask, input_type_ids)
        start_logits, end_logits = self.inference_step(inputs)
        return {"start_logits": start_logits, "end_logits": end_logits}

    @tf.function
    def serve_examples(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts serialised examples `[B]` with ids, as `serve`."""
        lengths = dict.fromkeys(_IDS, self.params.parse_sequence_length)
        return self.serve(**self._parse_examples(inputs, lengths))


class Tagging(_IdsModule):
    """Labels words that are ids or serialised ids."""

    @dataclasses.dataclass
    class Params(base_config.Config):
        """Description of the inputs and outputs."""

        parse_sequence_length: int | None = None
        """Positions of a serialised example."""

        use_v2_feature_names: bool = True
        """Whether serialised examples say `input_word_ids`, `input_type_ids` instead of
        `input_ids`, `segment_ids`."""

        output_encoder_outputs: bool = False
        """Whether the outputs of the encoder are outputs too."""

    def __init__(
        self, params: Params, model: Any, inference_step: Callable[..., Any] | None = None
    ) -> None:
        """Stores the parts.

        Args:
            params: What the inputs are.
            model: A `BertTokenClassifier`, or what gives its `logits`.
            inference_step: Runs the model, as for `ExportModule`.
        """
        super().__init__(params, model, inference_step)

    @override
    @tf.function
    def serve(
        self, input_word_ids: tf.Tensor, input_mask: tf.Tensor, input_type_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Predicts ids `[B, S]` int32: `logits` `[B, S, C]`, and `encoder_outputs` if wanted."""
        inputs = (input_word_ids, input_mask, input_type_ids)
        outputs = self.inference_step(dict(zip(_IDS, inputs, strict=True)))
        wanted = ["encoder_outputs"] if self.params.output_encoder_outputs else []
        return {name: outputs[name] for name in ["logits", *wanted]}

    @tf.function
    def serve_examples(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts serialised examples `[B]` with ids, as `serve`."""
        lengths = dict.fromkeys(_IDS, self.params.parse_sequence_length)
        return self.serve(**self._parse_examples(inputs, lengths))


class MaskedLM(_IdsModule):
    """Classifies by one of the classifiers of a pretrained model."""

    @dataclasses.dataclass
    class Params(base_config.Config):
        """Description of the inputs, and of what is predicted."""

        cls_head_name: str = "next_sentence"
        """The classifier."""

        use_v2_feature_names: bool = True
        """Whether serialised examples say `input_word_ids`, `input_type_ids` instead of
        `input_ids`, `segment_ids`."""

        parse_sequence_length: int | None = None
        """Positions of a serialised example."""

        max_predictions_per_seq: int | None = None
        """Masked positions of a serialised example."""

    def __init__(
        self, params: Params, model: Any, inference_step: Callable[..., Any] | None = None
    ) -> None:
        """Stores the parts.

        Args:
            params: What the inputs are.
            model: A pretrainer, which gives the logits of its classifiers by their names.
            inference_step: Runs the model, as for `ExportModule`.
        """
        super().__init__(params, model, inference_step)

    @override
    @tf.function
    def serve(
        self,
        input_word_ids: tf.Tensor,
        input_mask: tf.Tensor,
        input_type_ids: tf.Tensor,
        masked_lm_positions: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Predicts ids `[B, S]` and positions `[B, M]`, int32: `classification`, `[B, C]`."""
        outputs = self.inference_step(
            {
                "input_word_ids": input_word_ids,
                "input_mask": input_mask,
                "input_type_ids": input_type_ids,
                "masked_lm_positions": masked_lm_positions,
            }
        )
        return {"classification": outputs[self.params.cls_head_name]}

    @tf.function
    def serve_examples(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts serialised examples `[B]`, as `serve`."""
        lengths = dict.fromkeys(_IDS, self.params.parse_sequence_length)
        lengths["masked_lm_positions"] = self.params.max_predictions_per_seq
        return self.serve(**self._parse_examples(inputs, lengths))

    @override
    def _find_inputs(self) -> tuple[str, ...]:
        return (*_IDS, "masked_lm_positions")


class Translation(export_base.ExportModule):
    """Translates text."""

    @dataclasses.dataclass
    class Params(base_config.Config):
        """Conversion of text to ids."""

        sentencepiece_model_path: str = ""
        """SentencePiece model."""

        batch_size: int | None = None
        """Texts of a batch, where all shapes are fixed. None for any number."""

    def __init__(
        self, params: Params, model: Any, inference_step: Callable[..., Any] | None = None
    ) -> None:
        """Stores the parts, and loads the vocabulary.

        Args:
            params: How text becomes ids.
            model: A `Seq2SeqTransformer`, which translates `{"inputs": ids}`.
            inference_step: Runs the model, as for `ExportModule`.

        Raises:
            ConfigError: If the vocabulary is no SentencePiece model, or has no EOS.
            DataError: If there is no such file.
        """
        super().__init__(params, model, inference_step)
        self._tokenizer = tokenizers.SentencePieceTokenizer(params.sentencepiece_model_path)

    @override
    @tf.function
    def serve(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Translates `{"inputs": ids}`, `[B, S]`, as the model does."""
        return self.inference_step(inputs)

    @tf.function
    def serve_text(self, text: tf.Tensor) -> tf.Tensor:
        """Translates strings `[B]` to strings `[B]`."""
        ids = self._tokenizer.tokenize(text).to_tensor(0)
        return self._tokenizer.detokenize(self.serve({"inputs": ids})["outputs"])

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> dict[str, Any]:
        """Returns `serve_text` by the name of its signature.

        Raises:
            ConfigError: If another function is named.
        """
        for name in function_keys:
            check_function(self, name, ("serve_text",))
        text = tf.TensorSpec([self.params.batch_size], tf.string, name="text")
        return {
            signature: self.serve_text.get_concrete_function(text)
            for signature in function_keys.values()
        }
