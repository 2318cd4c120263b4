"""Cache of trained vocabularies below the user's cache directory, keyed by text and options."""

import hashlib
import json
import logging
import pathlib
from collections.abc import Sequence
from typing import Any, Final

import sentencepiece

from quintain.files import atomic_write, user_cache

NUM_KEPT: Final = 32
"""Vocabularies kept; what was used longest ago is removed."""

_DIGEST_SIZE: Final = hashlib.sha256().digest_size

_logger = logging.getLogger(__name__)


def find_key(sentences: Sequence[str], options: dict[str, Any]) -> str:
    """Returns a name for the vocabulary of a text: different where anything it depends on is."""
    parts = [sentencepiece.__version__, options, sentences]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def load(key: str) -> bytes | None:
    """Returns the SentencePiece model of a key; None if there is none, or it is damaged."""
    try:
        path = _find_path(key)
        content = path.read_bytes()
        path.touch()
    except (user_cache.UnusableCacheError, OSError):
        return None
    digest, model = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    return model if digest == hashlib.sha256(model).digest() else None


def save(key: str, model: bytes) -> None:
    """Keeps a SentencePiece model, where that is possible."""
    try:
        path = _find_path(key)
        atomic_write.write_atomically(path, hashlib.sha256(model).digest() + model, has_rivals=True)
        kept = sorted(path.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in kept[:-NUM_KEPT]:
            old.unlink()
    except (user_cache.UnusableCacheError, OSError) as error:
        _logger.info("The vocabulary is not kept for the next run: %s.", error)


def _find_path(key: str) -> pathlib.Path:
    return user_cache.open_directory("vocabularies") / f"{key}.model"
