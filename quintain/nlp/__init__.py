"""Text: translation models, their data, their scores.

Sub-packages load on first use, so that naming `quintain.nlp` does not load TensorFlow.
"""

import importlib
from types import ModuleType

_SUBPACKAGES = (
    "configs",
    "continuous_finetune_lib",
    "data",
    "experiments",
    "losses",
    "metrics",
    "modeling",
    "serving",
    "tasks",
)
_SERVED = ("classifier", "translator")


def __getattr__(name: str) -> ModuleType:
    if name in _SERVED:
        return importlib.import_module(f"{__name__}.serving.{name}")
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBPACKAGES, *_SERVED])
