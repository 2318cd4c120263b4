"""Tokenizer layers, and packing of ids into the inputs of BERT.

Shapes:
    B  texts in the batch
    S  positions of an input
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import keras
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.python.ops import bert_tokenizer
from typing_extensions import override

from quintain import errors
from quintain.files import file_io

_BERT_TOKENS: Final = {
    "start_of_sequence_id": "[CLS]",
    "end_of_segment_id": "[SEP]",
    "padding_id": "[PAD]",
    "mask_id": "[MASK]",
}

_TRIMMERS: Final = {
    "round_robin": tf_text.RoundRobinTrimmer,
    "waterfall": tf_text.WaterfallTrimmer,
}


def _read_lines(path: str) -> list[str]:
    # Not `splitlines`: pieces may hold other separators than line feeds.
    lines = file_io.read_text(path).removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


class _Tokenizer(keras.layers.Layer):
    """Base of tokenizers: they are called with texts, and name their special tokens."""

    def __init__(self, tokenize_with_offsets: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tokenize_with_offsets = tokenize_with_offsets
        self.built = True

    def get_special_tokens_dict(self) -> dict[str, int]:
        """Returns the ids of special tokens by what they are for, and `vocab_size`.

        Those are `start_of_sequence_id`, `end_of_segment_id`, `padding_id` and `mask_id`; a token
        that is not in the vocabulary is left out.
        """
        return dict(self._special_tokens_dict)

    @override
    def get_config(self) -> NoReturn:
        """Refuses: the layer reads a file, which may not be where its config is read.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} has no config: it reads a file.")


def _find_special(ids: Mapping[str, int]) -> dict[str, int]:
    """Returns the ids of BERT's special tokens, of a vocabulary's ids."""
    special = {key: ids[token] for key, token in _BERT_TOKENS.items() if token in ids}
    return {"vocab_size": len(ids), **special}


class BertTokenizer(_Tokenizer):
    """Splits texts into words, and words into pieces, as BERT does.

    Source:
        Devlin et al., 2019 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        *,
        vocab_file: str,
        lower_case: bool | None = None,
        tokenize_with_offsets: bool = False,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenize_with_offsets, **kwargs)
        pieces = _read_lines(vocab_file)
        numbers = tf.range(len(pieces), dtype=tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(pieces), numbers)
        self._vocab_table = tf.lookup.StaticHashTable(initializer, default_value=-1)
        self._special_tokens_dict = _find_special({piece: i for i, piece in enumerate(pieces)})
        options = dict(tokenizer_kwargs or {})
        if lower_case is not None:
            options["lower_case"] = lower_case
        self._bert_tokenizer = tf_text.BertTokenizer(self._vocab_table, **options)

    @property
    def vocab_size(self) -> tf.Tensor:
        """Number of pieces, int64."""
        return self._vocab_table.size()

    @override
    def call(self, inputs: tf.Tensor) -> Any:
        """Tokenizes.

        Args:
            inputs: `[B]` strings.

        Returns:
            Ids `[B, (words), (pieces)]`, ragged int32; and, if they are asked for, the bytes at
            which each starts and ends, int64.
        """
        if not self.tokenize_with_offsets:
            return tf.cast(self._bert_tokenizer.tokenize(inputs), tf.int32)
        ids, *offsets = self._bert_tokenizer.tokenize_with_offsets(inputs)
        return tf.cast(ids, tf.int32), *offsets


class FastWordpieceBertTokenizer(_Tokenizer):
    """Splits texts into pieces as `BertTokenizer` does, in linear time.

    Source:
        Song et al., 2021 (https://arxiv.org/abs/2012.15524).
    """

    def __init__(
        self,
        *,
        vocab_file: str,
        lower_case: bool,
        tokenize_with_offsets: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenize_with_offsets, **kwargs)
        pieces = _read_lines(vocab_file)
        self._size = len(pieces)
        self._basic_tokenizer = bert_tokenizer.BasicTokenizer(lower_case=lower_case)
        self._fast_wp_tokenizer = tf_text.FastWordpieceTokenizer(
            vocab=pieces, token_out_type=tf.int32, no_pretokenization=True
        )
        self._special_tokens_dict = _find_special({piece: i for i, piece in enumerate(pieces)})

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return self._size

    @override
    def call(self, inputs: tf.Tensor) -> Any:
        """Tokenizes `[B]` strings; returns what `BertTokenizer` does."""
        if not self.tokenize_with_offsets:
            return self._fast_wp_tokenizer.tokenize(self._basic_tokenizer.tokenize(inputs))
        words, first, _ = self._basic_tokenizer.tokenize_with_offsets(inputs)
        ids, starts, ends = self._fast_wp_tokenizer.tokenize_with_offsets(words)
        first = tf.expand_dims(first, axis=2)
        return ids, first + starts, first + ends


class SentencepieceTokenizer(_Tokenizer):
    """Splits texts into pieces by a SentencePiece model.

    Source:
        Kudo and Richardson, 2018 (https://arxiv.org/abs/1808.06226).
    """

    def __init__(
        self,
        *,
        lower_case: bool,
        model_file_path: str | None = None,
        model_serialized_proto: bytes | None = None,
        tokenize_with_offsets: bool = False,
        nbest_size: int = 0,
        alpha: float = 1.0,
        strip_diacritics: bool = False,
        **kwargs: Any,
    ) -> None:
        """Reads the model.

        Raises:
            ConfigError: If there is no model, or two; or offsets are wanted of texts whose accents
                are taken off.
        """
        super().__init__(tokenize_with_offsets, **kwargs)
        if bool(model_file_path) == bool(model_serialized_proto):
            raise errors.ConfigError(
                f"model_file_path: got {model_file_path!r} and model_serialized_proto "
                f"{'given' if model_serialized_proto else 'not given'}, expected one of the two."
            )
        if tokenize_with_offsets and strip_diacritics:
            raise errors.ConfigError(
                "tokenize_with_offsets: got True with strip_diacritics=True; texts without their "
                "accents have other offsets."
            )
        if model_file_path:
            model_serialized_proto = file_io.read_bytes(model_file_path)
        self._lower_case = lower_case
        self._strip_diacritics = strip_diacritics
        self._tokenizer = tf_text.SentencepieceTokenizer(
            model=model_serialized_proto, out_type=tf.int32, nbest_size=nbest_size, alpha=alpha
        )
        self._special_tokens_dict = self._read_special()

    def _read_special(self) -> dict[str, int]:
        tokens = {**_BERT_TOKENS, "padding_id": "<pad>"}
        ids = self._tokenizer.string_to_id(tf.constant(list(tokens.values())))
        texts = self._tokenizer.id_to_string(ids).numpy()
        found = zip(tokens.items(), ids.numpy(), texts, strict=True)
        special = {key: int(i) for (key, token), i, text in found if text == token.encode()}
        return {"vocab_size": int(self.vocab_size), **special}

    @property
    def vocab_size(self) -> tf.Tensor:
        """Number of pieces."""
        return self._tokenizer.vocab_size()

    @override
    def call(self, inputs: tf.Tensor) -> Any:
        """Tokenizes.

        Args:
            inputs: `[B]` strings.

        Returns:
            Ids `[B, (pieces)]`, ragged int32; and, if they are asked for, the bytes at which each
            starts and ends.
        """
        if self._strip_diacritics:
            inputs = tf_text.normalize_utf8(inputs, "NFD")
            inputs = tf.strings.regex_replace(inputs, r"\p{Mn}", "")
        if self._lower_case:
            inputs = tf_text.case_fold_utf8(inputs)
        if self.tokenize_with_offsets:
            return self._tokenizer.tokenize_with_offsets(inputs)
        return self._tokenizer.tokenize(inputs)


@keras.saving.register_keras_serializable(package="Text")
class BertPackInputs(keras.layers.Layer):
    """Puts segments into the inputs of BERT: special tokens, truncation and padding."""

    def __init__(
        self,
        seq_length: int,
        *,
        start_of_sequence_id: int | None = None,
        end_of_segment_id: int | None = None,
        padding_id: int | None = None,
        special_tokens_dict: Mapping[str, int] | None = None,
        truncator: str = "round_robin",
        **kwargs: Any,
    ) -> None:
        """Stores the options.

        Args:
            seq_length: Positions of an input.
            start_of_sequence_id: Id before the first segment; this and the next two are given, or
                `special_tokens_dict`.
            end_of_segment_id: Id after each segment.
            padding_id: Id of padding.
            special_tokens_dict: What `get_special_tokens_dict` of a tokenizer gives.
            truncator: `round_robin` takes from the longest segment, `waterfall` from the last.
            **kwargs: Arguments of a Keras layer.

        Raises:
            ConfigError: If there is no such truncator, or ids are missing, or given twice.
        """
        super().__init__(**kwargs)
        if truncator not in _TRIMMERS:
            raise errors.ConfigError(
                f"truncator: got {truncator!r}. Only 'round_robin' and 'waterfall' algorithms are "
                "supported."
            )
        ids = {
            "start_of_sequence_id": start_of_sequence_id,
            "end_of_segment_id": end_of_segment_id,
            "padding_id": padding_id,
        }
        if special_tokens_dict is not None:
            if any(one is not None for one in ids.values()):
                raise errors.ConfigError(
                    "special_tokens_dict: got it beside ids of its tokens; give one of the two."
                )
            ids = {name: special_tokens_dict.get(name) for name in ids}
        missing = [name for name, one in ids.items() if one is None]
        if missing:
            raise errors.ConfigError(
                f"{missing[0]}: got None; all of {', '.join(ids)} must be given, or a "
                "`special_tokens_dict` that has them."
            )
        self.seq_length = seq_length
        self.truncator = truncator
        self.start_of_sequence_id, self.end_of_segment_id, self.padding_id = (
            int(one) for one in ids.values() if one is not None
        )
        self.built = True

    @override
    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Packs.

        Args:
            inputs: A segment, or a list of segments: ragged ids `[B, (pieces)]`, or
                `[B, (words), (pieces)]`.

        Returns:
            `input_word_ids`, `input_mask` and `input_type_ids`, `[B, S]` int32 each.
        """
        return BertPackInputs.bert_pack_inputs(
            inputs,
            self.seq_length,
            start_of_sequence_id=self.start_of_sequence_id,
            end_of_segment_id=self.end_of_segment_id,
            padding_id=self.padding_id,
            truncator=self.truncator,
        )

    @staticmethod
    def bert_pack_inputs(
        inputs: Any,
        seq_length: Any,
        start_of_sequence_id: Any,
        end_of_segment_id: Any,
        padding_id: Any,
        truncator: str = "round_robin",
    ) -> dict[str, tf.Tensor]:
        """Does what the layer does, with its arguments and inputs.

        Raises:
            ValueError: If there is no segment, or their ranks differ.
        """
        segments = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if not segments:
            raise ValueError("inputs: got none. At least one input is required for packing.")
        ranks = {segment.shape.rank for segment in segments}
        if None in ranks or len(ranks) > 1:
            raise ValueError(f"inputs: got ranks {ranks}, expected the same known rank for all.")
        if ranks.pop() > 2:
            segments = [segment.merge_dims(1, -1) for segment in segments]
        room = seq_length - len(segments) - 1
        trimmed = _TRIMMERS[truncator](room).trim(segments)
        ids, numbers = tf_text.combine_segments(
            trimmed,
            start_of_sequence_id=start_of_sequence_id,
            end_of_segment_id=end_of_segment_id,
        )
        words, _ = tf_text.pad_model_inputs(ids, seq_length, pad_value=padding_id)
        types, mask = tf_text.pad_model_inputs(numbers, seq_length, pad_value=0)
        shape = [segments[0].nrows(out_type=tf.int32), seq_length]
        found = {"input_word_ids": words, "input_mask": mask, "input_type_ids": types}
        return {name: tf.reshape(tensor, shape) for name, tensor in found.items()}

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "seq_length": self.seq_length,
            "start_of_sequence_id": self.start_of_sequence_id,
            "end_of_segment_id": self.end_of_segment_id,
            "padding_id": self.padding_id,
            "truncator": self.truncator,
        }
