"""The vocabularies of BERT: WordPiece and SentencePiece, with `[CLS]`, `[SEP]` and `[MASK]`.

Shapes:
    N  texts
    L  tokens of a text
    V  tokens of the vocabulary
"""

import abc
import codecs
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.nlp.data import text_operations, tokenizers

Tokenization = Literal["WordPiece", "SentencePiece"]

PAD_ID: Final = 0
CLS: Final = "[CLS]"
SEP: Final = "[SEP]"
MASK: Final = "[MASK]"
SPECIAL_TOKENS: Final = (CLS, SEP, MASK)

_WORD_START: Final = "\u2581"
_CONTINUATION: Final = "##"
_WORDPIECE_PAD: Final = "[PAD]"
_WORDPIECE_UNKNOWN: Final = "[UNK]"
_SHOWN_TOKEN_LENGTH: Final = 30


class BertVocabulary(tf.Module, abc.ABC):
    """Cuts text into tokens inside the graph, and knows the special ones.

    As a `tf.Module` it travels in a SavedModel.
    """

    def __init__(self, path: str, tokens: Sequence[str], unknown: str | None) -> None:
        super().__init__(name="bert_vocabulary")
        self.path = path
        self._ids = {token: index for index, token in enumerate(tokens)}
        self.tokens: tuple[str, ...] = tuple(tokens)
        """All tokens, in the order of their ids."""
        self.unknown_id: int | None = None if unknown is None else self._ids[unknown]
        """Id of what has no token; None if every text has tokens."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return len(self.tokens)

    @property
    def cls_id(self) -> int:
        """Id of the token that starts every example."""
        return self.get_id(CLS)

    @property
    def sep_id(self) -> int:
        """Id of the token that ends every segment."""
        return self.get_id(SEP)

    @property
    def mask_id(self) -> int:
        """Id of the token that stands for a masked one."""
        return self.get_id(MASK)

    def get_id(self, token: str) -> int:
        """Returns the id of a token.

        Raises:
            ConfigError: If the vocabulary has no such token.
        """
        if token not in self._ids:
            raise errors.ConfigError(
                f"{self.path}: the vocabulary has no token {token}, which BERT needs. Train it "
                "with `quintain data sentencepiece "
                f"--control-symbols='{','.join(SPECIAL_TOKENS)}'`."
            )
        return self._ids[token]

    @property
    @abc.abstractmethod
    def is_special(self) -> npt.NDArray[np.bool_]:
        """`[V]` bool: tokens that stand for no text, such as padding, `[CLS]` and the unknown."""

    @property
    @abc.abstractmethod
    def starts_word(self) -> npt.NDArray[np.bool_]:
        """`[V]` bool: tokens at the beginning of a word."""

    @abc.abstractmethod
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the tokens `[N, L]` int32 of UTF-8 texts `[N]`, without special ones."""

    @abc.abstractmethod
    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns what `tokenize` does, and the bytes where tokens begin and end in their texts.

        Of a text whose length changes with its case, each token begins and ends where the text
        does.
        """


class SentencePieceVocabulary(BertVocabulary):
    """Tokens of a SentencePiece model."""

    def __init__(self, path: str, *, lower_case: bool) -> None:
        """Loads a model.

        Raises:
            DataError: If the file is missing or not a SentencePiece model.
            ConfigError: If its id 0 is an ordinary token.
        """
        model = tokenizers.read_model(path)
        processor = tokenizers.parse_model(model, path)
        tokens = [processor.id_to_piece(index) for index in range(processor.vocab_size())]
        self._is_special = np.array(
            [
                processor.is_control(index)
                or processor.is_unknown(index)
                or token in SPECIAL_TOKENS
                for index, token in enumerate(tokens)
            ]
        )
        if not self._is_special[PAD_ID]:
            raise errors.ConfigError(
                f"{path}: id 0 is the ordinary token {tokens[PAD_ID]!r}, but 0 is padding here. "
                "Train the vocabulary with `pad_id=0`, as `quintain data sentencepiece` does."
            )
        super().__init__(path, tokens, tokens[processor.unk_id()])
        self._lower_case = lower_case
        with tf.device("CPU:0"):
            self._pieces = text_operations.SentencePieces(model, add_eos=False)

    @property
    @override
    def is_special(self) -> npt.NDArray[np.bool_]:
        return self._is_special

    @property
    @override
    def starts_word(self) -> npt.NDArray[np.bool_]:
        return np.array([token.startswith(_WORD_START) for token in self.tokens])

    @override
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = text_operations.case_fold_utf8(texts) if self._lower_case else texts
        return self._pieces.tokenize(texts)

    @override
    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        folded = text_operations.case_fold_utf8(texts) if self._lower_case else texts
        ids, starts, ends = self._pieces.tokenize_with_offsets(folded)
        lengths = tf.strings.length(texts)
        is_same = tf.gather(lengths == tf.strings.length(folded), ids.value_rowids())
        whole = tf.gather(lengths, ids.value_rowids())
        return (
            ids,
            ids.with_values(tf.where(is_same, starts.values, 0)),
            ids.with_values(tf.where(is_same, ends.values, whole)),
        )


class WordPieceVocabulary(BertVocabulary):
    """Tokens of a WordPiece vocabulary: a text file with one of them a line."""

    def __init__(self, path: str, *, lower_case: bool) -> None:
        """Loads a vocabulary; with `lower_case` text loses its case and its accents.

        Raises:
            DataError: If the file is missing, not UTF-8, or holds a token twice.
            ConfigError: If `[UNK]` is missing, or id 0 is an ordinary token.
        """
        tokens = _read_tokens(path)
        if tokens[PAD_ID] != _WORDPIECE_PAD:
            raise errors.ConfigError(
                f"{path}:1: got {tokens[PAD_ID][:_SHOWN_TOKEN_LENGTH]!r}, expected "
                f"{_WORDPIECE_PAD!r}: id 0 is padding here. For a SentencePiece model set "
                "tokenization to 'SentencePiece'."
            )
        if _WORDPIECE_UNKNOWN not in tokens:
            raise errors.ConfigError(
                f"{path}: the vocabulary has no token {_WORDPIECE_UNKNOWN}, which WordPiece needs."
            )
        super().__init__(path, tokens, _WORDPIECE_UNKNOWN)
        self._words = text_operations.FastBertTokenizer(
            vocab=list(tokens),
            token_out_type=tf.int32,
            lower_case_nfd_strip_accents=lower_case,
        )

    @property
    @override
    def is_special(self) -> npt.NDArray[np.bool_]:
        return np.array([token.startswith("[") and token.endswith("]") and len(token) > 2
                         for token in self.tokens])  # fmt: skip

    @property
    @override
    def starts_word(self) -> npt.NDArray[np.bool_]:
        return np.array([not token.startswith(_CONTINUATION) for token in self.tokens])

    @override
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._words.tokenize(texts)

    @override
    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        ids, starts, ends = self._words.tokenize_with_offsets(texts)
        return ids, tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)


def load(
    path: str, tokenization: Tokenization, *, lower_case: bool, field: str = "vocab_file"
) -> BertVocabulary:
    """Loads a vocabulary: a WordPiece text file or a SentencePiece model, as `tokenization` says.

    Args:
        path: The file.
        tokenization: What it is.
        lower_case: Whether case does not count; WordPiece then drops accents as well.
        field: The config field that gives the path, for messages.

    Raises:
        ConfigError: If there is no path, or the vocabulary can't be used.
        DataError: If the file is missing or of another kind.
    """
    if not path:
        raise errors.ConfigError(
            f"{field}: got '', expected a SentencePiece model or a WordPiece vocabulary. "
            "`quintain data sentencepiece` trains one."
        )
    if not file_io.exists(path):
        raise errors.DataError(f"{field}: no file {path!r}. Check the path.")
    if tokenization == "SentencePiece":
        return SentencePieceVocabulary(path, lower_case=lower_case)
    return WordPieceVocabulary(path, lower_case=lower_case)


def _read_tokens(path: str) -> list[str]:
    with file_io.open(path, "rb") as file:
        data: bytes = file.read().removeprefix(codecs.BOM_UTF8)
    try:
        lines = data.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise errors.DataError(
            f"{path}: is not UTF-8 text, as a WordPiece vocabulary is. For a SentencePiece model "
            "set tokenization to 'SentencePiece'."
        ) from error
    tokens = lines[:-1] if lines and not lines[-1] else lines
    if not tokens:
        raise errors.DataError(f"{path}: the vocabulary {file_paths.basename(path)!r} is empty.")
    seen: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if token in seen:
            raise errors.DataError(
                f"{path}:{number}: the token {token[:_SHOWN_TOKEN_LENGTH]!r} stands on line "
                f"{seen[token]} already. Each token has one id."
            )
        seen[token] = number
    return tokens
