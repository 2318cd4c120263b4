"""Quintain trains TensorFlow models and searches their hyperparameters.

`import quintain as tfm` gives the training library: `tfm.core`, `tfm.nlp`, `tfm.modeling`,
`tfm.optimization`, `tfm.orbit`, `tfm.config` and its other name `tfm.hyperparams`. They load when
they are first used.
"""

import importlib
from typing import Any

from quintain import quiet_tensorflow

__version__ = "0.1.0"

quiet_tensorflow.install()

_PACKAGES = {
    "config": "quintain.config",
    "core": "quintain.core",
    "hyperparams": "quintain.config",
    "modeling": "quintain.modeling",
    "nlp": "quintain.nlp",
    "optimization": "quintain.optimization",
    "orbit": "quintain.orbit",
}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(_PACKAGES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_PACKAGES, "__version__"])
