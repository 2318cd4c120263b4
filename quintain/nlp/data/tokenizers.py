"""SentencePiece vocabularies: training one from text, and using one inside the graph.

A trained vocabulary has padding at 0, the end of a sentence (EOS) at 1, unknown at 2 and no
beginning of a sentence, which is what the models of this package expect. A vocabulary from
elsewhere may number EOS as it likes.

Shapes:
    N  sentences
    L  tokens of a sentence, its EOS included
"""

import collections
import hashlib
import io
import itertools
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
import sentencepiece
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, user_cache, whole_files
from quintain.nlp.data import text_operations

PAD_ID: Final = 0
EOS_ID: Final = 1
UNK_ID: Final = 2

MAX_CHARACTERS_PER_TOKEN: Final = 100
"""Text with more characters for each token it may have is too long without a look at its tokens:
the time to find them grows with the square of the length of a text without spaces."""

# The trainer adds up floats per thread: a fixed number gives the same vocabulary on every machine.
_NUM_THREADS = 4

# A language's alphabet always fits; the thousands of odd characters of web text do not pay.
_MAX_CHARACTERS_RATIO = 0.25
_COVERAGE_OF_MANY = 0.9995

# Longer lines are left out by SentencePiece, without a word.
_MAX_SENTENCE_BYTES = 4_192
_PART_CHARACTERS = 1_000
_WORD_START = "\u2581"

_CACHE = "vocabularies"
_CACHED_CHARACTERS = 500_000
"""Characters from which on a text's vocabulary is cached: training takes longer than hashing."""

_logger = logging.getLogger(__name__)


def train_sentencepiece(
    lines: Iterable[str],
    model_path: str,
    *,
    vocab_size: int,
    character_coverage: float | None = None,
    model_type: Literal["unigram", "bpe"] = "unigram",
    split_digits: bool = False,
    control_symbols: Sequence[str] = (),
) -> None:
    """Trains a SentencePiece vocabulary and writes it to a file.

    The same lines give the same file, byte for byte. The file appears only when it is complete.
    That of a large text is also kept in the user's cache, for the next run on it.

    Args:
        lines: Sentences, of all languages that share the vocabulary. Very long ones are cut.
        model_path: File to write. Its directory is created.
        vocab_size: Tokens wanted, the three special ones included. Text too small for so many gives
            fewer.
        character_coverage: Share of the text whose characters get a token, in `(0, 1]`. The
            rarest others become the unknown token. None means all characters, if they take no
            more than a quarter of the vocabulary, and 0.9995 otherwise.
        model_type: How tokens are chosen.
        split_digits: Whether every digit is its own token. Large models copy long numbers better
            so; small ones learn to copy the few longer pieces sooner.
        control_symbols: Tokens that no text gives, with the ids from 3 on, such as `[CLS]`.

    Raises:
        DataError: If there is no text.
        ConfigError: If `vocab_size` is too small for the characters of the text.

    Source:
        Kudo, 2018, "Subword Regularization" (https://arxiv.org/abs/1804.10959), for "unigram".
    """
    sentences = [part for line in lines for part in _cut(line) if part.strip()]
    if not sentences:
        raise errors.DataError("lines: no text to train a vocabulary from. Check the data's path.")
    counts = collections.Counter(itertools.chain.from_iterable(sentences))
    if character_coverage is None:
        has_few = len(counts) <= vocab_size * _MAX_CHARACTERS_RATIO
        character_coverage = 1.0 if has_few else _COVERAGE_OF_MANY
    options = {
        "vocab_size": vocab_size,
        "character_coverage": character_coverage,
        "model_type": model_type,
        "split_digits": split_digits,
        "pad_id": PAD_ID,
        "eos_id": EOS_ID,
        "unk_id": UNK_ID,
        "bos_id": -1,
        "control_symbols": list(control_symbols),
        "hard_vocab_limit": False,
        "num_threads": _NUM_THREADS,
    }
    key = _find_key(sentences, options) if counts.total() >= _CACHED_CHARACTERS else ""
    model = kept = user_cache.load(_CACHE, key) if key else None
    if model is None:
        try:
            model = _train(sentences, options)
        except RuntimeError as error:
            raise errors.ConfigError(_explain(error, vocab_size, counts)) from error
    _check_outcome(model, vocab_size, counts)
    if key and kept is None:
        user_cache.save(_CACHE, key, model)
    whole_files.write(model_path, model, has_rivals=True)


def _find_key(sentences: Sequence[str], options: dict[str, Any]) -> str:
    """Returns a name for the vocabulary of a text: different where anything it depends on is."""
    parts = json.dumps([sentencepiece.__version__, options, sentences])
    return f"{hashlib.sha256(parts.encode()).hexdigest()[:32]}.model"


def _train(sentences: Sequence[str], options: dict[str, Any]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, minloglevel=2, **options
    )
    return model.getvalue()


def _explain(error: RuntimeError, vocab_size: int, counts: collections.Counter[str]) -> str:
    detail = str(error).strip().rpartition("] ")[2] or "no reason given"
    return (
        f"vocab_size: got {vocab_size!r}, and SentencePiece cannot train a vocabulary of that size "
        f"from this text, which has {len(counts)} different characters ({detail}). Give at least "
        f"{len(counts) + 4}."
    )


def _cut(line: str) -> Iterator[str]:
    """Yields a line, or the parts of one that SentencePiece would leave out for its length."""
    if len(line.encode()) > _MAX_SENTENCE_BYTES:
        start = 0
        while len(line) - start > _PART_CHARACTERS:
            space = line.rfind(" ", start + 1, start + _PART_CHARACTERS)
            end = start + _PART_CHARACTERS if space < 0 else space
            yield line[start:end]
            start = end
        line = line[start:]
    yield line


def _check_outcome(model: bytes, vocab_size: int, counts: collections.Counter[str]) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    if all(
        processor.is_control(index)
        or processor.is_unknown(index)
        or processor.id_to_piece(index) == _WORD_START
        for index in range(processor.vocab_size())
    ):
        raise errors.DataError(
            "lines: no text to train a vocabulary from, only spaces and control characters. Check "
            "the data's path."
        )
    if processor.vocab_size() < vocab_size:
        _logger.warning(
            "vocab_size: got %d, but the text gives only %d tokens; going on with those.",
            vocab_size, processor.vocab_size(),
        )  # fmt: skip
    unknown = [
        character
        for character, _ in counts.most_common()
        if not character.isspace() and UNK_ID in processor.encode(character)
    ]
    if unknown:
        _logger.info(
            "%d rare characters have no token and become unknown, such as %s.",
            len(unknown), " ".join(unknown[:10]),
        )  # fmt: skip


class SentencePieceTokenizer(tf.Module):
    """Turns sentences into token ids and back, inside the graph.

    As a `tf.Module` it travels in a SavedModel, so that an exported model takes text. (Loading one
    needs `import tensorflow_text`.)

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/vocabulary.model"
        >>> train_sentencepiece(["to be or not to be"] * 10, path, vocab_size=16)
        >>> tokenizer = SentencePieceTokenizer(path)
        >>> ids = tokenizer.tokenize(tf.constant(["to be", ""]))
        >>> ids[1].numpy().tolist() == [tokenizer.eos_id]
        True
        >>> tokenizer.detokenize(ids).numpy().tolist()
        [b'to be', b'']
    """

    def __init__(self, model_path: str) -> None:
        """Loads a SentencePiece model.

        Raises:
            DataError: If the file is missing or not a SentencePiece model.
            ConfigError: If the vocabulary has no EOS, or an ordinary token at id 0, which is
                padding here.
        """
        super().__init__(name="sentencepiece_tokenizer")
        self.model_path = model_path
        model, processor = load_model(model_path)
        self.vocab_size: int = processor.vocab_size()
        """Tokens of the vocabulary, special ones included."""
        self.eos_id: int = processor.eos_id()
        """Id of the token that ends every sentence."""
        with tf.device("CPU:0"):
            self._tokenizer = text_operations.SentencePieces(model, add_eos=True)

    def tokenize(self, sentences: tf.Tensor) -> tf.RaggedTensor:
        """Returns the tokens `[N, L]` int32 of UTF-8 sentences `[N]`, each followed by EOS.

        A scalar sentence gives a plain tensor `[L]`.
        """
        return self._tokenizer.tokenize(sentences)

    def detokenize(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Returns the texts `[N]` of ids `[N, L]`, ragged or padded with 0, up to the first EOS."""
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(PAD_ID)
        ids = tf.cast(ids, tf.int32)
        is_eos = tf.cast(tf.equal(ids, self.eos_id), tf.int32)
        is_text = tf.equal(tf.cumsum(is_eos, axis=1), 0) & tf.not_equal(ids, PAD_ID)
        return self._tokenizer.detokenize(tf.ragged.boolean_mask(ids, is_text))

    def detokenize_rows(self, rows: Sequence[np.ndarray]) -> list[bytes]:
        """Returns the texts of rows of ids, as `detokenize` does, outside of graphs.

        Of a short translation, the masks of `detokenize` are half of the time.
        """
        rows = [row[np.cumsum(row == self.eos_id) == 0] for row in rows]
        rows = [row[row != PAD_ID].astype(np.int32) for row in rows]
        splits = np.cumsum([0, *map(len, rows)])
        ragged = tf.RaggedTensor.from_row_splits(np.concatenate(rows), splits, validate=False)
        texts: list[bytes] = self._tokenizer.detokenize(ragged).numpy().tolist()
        return texts


Sides = tuple[SentencePieceTokenizer, SentencePieceTokenizer]
"""The tokenizers of source and target; the same one twice if they share a vocabulary."""


def both_sides(given: "SentencePieceTokenizer | Sides") -> Sides:
    """Returns the tokenizers of source and target, from one for both or one for each."""
    return given if isinstance(given, tuple) else (given, given)


def read_model(path: str) -> bytes:
    """Returns the bytes of a SentencePiece model.

    Raises:
        DataError: If the file cannot be read.
    """
    try:
        return file_io.read_bytes(path)
    except OSError as error:
        raise errors.DataError(
            f"{path}: the SentencePiece model cannot be read ({error.strerror}). Check the path, "
            "or leave it empty to have a vocabulary trained from the training data."
        ) from error


def parse_model(model: bytes, path: str) -> sentencepiece.SentencePieceProcessor:
    """Returns the SentencePiece model that a file holds.

    Raises:
        DataError: If it holds none.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise errors.DataError(f"{path}: is not a SentencePiece model.") from error
    if processor.vocab_size() == 0:
        raise errors.DataError(f"{path}: is not a SentencePiece model.")
    return processor


def load_model(path: str) -> tuple[bytes, sentencepiece.SentencePieceProcessor]:
    """Returns the bytes of a SentencePiece model with padding and EOS, and what they mean.

    Raises:
        DataError: If the file is missing or not a SentencePiece model.
        ConfigError: If the vocabulary has no EOS, or an ordinary token at id 0.
    """
    model = read_model(path)
    processor = parse_model(model, path)
    if processor.eos_id() <= 0:
        raise errors.ConfigError(
            f"{path}: the vocabulary has no EOS token, so no sentence could end. Train it with "
            "`eos_id=1 pad_id=0 unk_id=2`, or leave the path empty to have one trained."
        )
    if not (processor.is_control(PAD_ID) or processor.is_unknown(PAD_ID)):
        raise errors.ConfigError(
            f"{path}: id 0 is the ordinary token {processor.id_to_piece(PAD_ID)!r}, but 0 is "
            "padding here. Train the vocabulary with `pad_id=0`."
        )
    return model, processor
