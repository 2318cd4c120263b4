"""Text tasks: the glue between a config, a model, its data and its scores.

Names load on first use, so that naming the package does not load TensorFlow.
"""

import importlib
from typing import Any

_MODULES = ("masked_lm", "sentence_prediction", "translation", "vocabulary")
_NAMES = {
    "MaskedLMConfig": "masked_lm",
    "MaskedLMTask": "masked_lm",
    "EncDecoder": "translation",
    "ModelConfig": "translation",
    "SentencePredictionConfig": "sentence_prediction",
    "SentencePredictionTask": "sentence_prediction",
    "TranslationConfig": "translation",
    "TranslationTask": "translation",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_NAMES])
