"""The vocabulary of a translation run: the one that was given, or one trained from the data.

Either way the run's directory ends up with a copy, `vocabulary.model`, so that the directory alone
is enough to resume, evaluate and translate.
"""

import logging
import math
import os

import tensorflow as tf

from quintain import errors
from quintain.nlp.data import tokenizers, wmt_dataloader

FILE_NAME = "vocabulary.model"

_logger = logging.getLogger(__name__)


def find(model_dir: str) -> str | None:
    """Returns the path of the vocabulary kept in a run's directory, or None if there is none.

    Args:
        model_dir: The run's directory; may be empty.
    """
    path = os.path.join(model_dir, FILE_NAME) if model_dir else ""
    return path if path and tf.io.gfile.exists(path) else None


def prepare(
    train_data: wmt_dataloader.WMTDataConfig,
    *,
    model_path: str,
    vocab_size: int,
    max_pairs: int,
    model_dir: str,
) -> str:
    """Returns the path of the run's vocabulary, training or copying it first where needed.

    A vocabulary that the directory holds already is used again, because the weights beside it were
    trained with it.

    Args:
        train_data: What to train a vocabulary from.
        model_path: SentencePiece model to use instead; may be empty.
        vocab_size: Tokens of the vocabulary to train.
        max_pairs: Most pairs to train it from; of more, as many are taken, evenly spread.
        model_dir: Directory to keep the vocabulary in; may be empty if `model_path` is not.

    Returns:
        A file below `model_dir`, or `model_path` if there is no `model_dir`.

    Raises:
        ConfigError: If `model_path` does not exist, or differs from the vocabulary that the run
            started with; or if both `model_path` and `model_dir` are empty.
    """
    kept = find(model_dir)
    if model_path:
        return _use_given(model_path, model_dir, kept)
    if kept:
        return kept
    if not model_dir:
        raise errors.ConfigError(
            "task.sentencepiece_model_path: got '', and there is no directory to keep a vocabulary "
            "trained from `task.train_data` in. Give the path of a SentencePiece model, or a model "
            "directory (`--model_dir`, or `logging_dir` where the task is built in Python)."
        )
    pairs = wmt_dataloader.read_pairs(train_data)
    sample = pairs[:: math.ceil(len(pairs) / max_pairs)]
    _logger.info("Training a vocabulary of %d tokens from %d pairs.", vocab_size, len(sample))
    path = os.path.join(model_dir, FILE_NAME)
    lines = (side for pair in sample for side in pair)
    tokenizers.train_sentencepiece(lines, path, vocab_size=vocab_size)
    return path


def keep(path: str, model_dir: str, *, field: str, name: str) -> str:
    """Copies a given vocabulary to a run's directory, and returns the path of the copy.

    Args:
        path: The vocabulary.
        model_dir: The run's directory; if empty, nothing is copied.
        field: The config field that gives the path, for messages.
        name: Name of the copy.

    Raises:
        ConfigError: If there is no vocabulary, or the directory holds another one, which the
            weights beside it depend on.
    """
    kept = os.path.join(model_dir, name) if model_dir else ""
    is_kept = bool(kept) and tf.io.gfile.exists(kept)
    if not path or not tf.io.gfile.exists(path):
        if is_kept:
            return kept
        raise errors.ConfigError(
            f"{field}: got {path!r}, expected the file of a vocabulary"
            + (", but there is no such file." if path else ".")
        )
    if not model_dir:
        return path
    if not is_kept:
        return _copy(path, model_dir, name)
    if _read(kept) != _read(path):
        raise errors.ConfigError(
            f"{field}: got {path!r}, but the run in {model_dir!r} was started with another "
            f"vocabulary ({name}), which its weights depend on. Use the same vocabulary, "
            "or another model directory."
        )
    return kept


def _use_given(model_path: str, model_dir: str, kept: str | None) -> str:
    if not tf.io.gfile.exists(model_path):
        raise errors.ConfigError(
            f"task.sentencepiece_model_path: got {model_path!r}, but there is no such file. Leave "
            "it empty to train a vocabulary from the training data."
        )
    if not model_dir:
        return model_path
    if kept is None:
        tokenizers.SentencePieceTokenizer(model_path)  # Fails before anything is written.
        return _copy(model_path, model_dir)
    if _read(kept) != _read(model_path):
        raise errors.ConfigError(
            f"task.sentencepiece_model_path: got {model_path!r}, but the run in {model_dir!r} was "
            f"started with another vocabulary ({FILE_NAME}), which its weights depend on. Use the "
            "same vocabulary, or another model directory."
        )
    return kept


def _copy(model_path: str, model_dir: str, name: str = FILE_NAME) -> str:
    """Copies a vocabulary under a passing name first, so that a run killed here leaves no half."""
    tf.io.gfile.makedirs(model_dir)
    path = os.path.join(model_dir, name)
    unfinished = f"{path}.{os.getpid()}.tmp"
    tf.io.gfile.copy(model_path, unfinished, overwrite=True)
    tf.io.gfile.rename(unfinished, path, overwrite=True)
    return path


def _read(path: str) -> bytes:
    with tf.io.gfile.GFile(path, "rb") as file:
        data: bytes = file.read()
    return data
