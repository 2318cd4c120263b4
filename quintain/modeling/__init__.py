"""Helpers for models and training loops: shapes, activations, replicas, precision.

The modules load when they are first used.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__, ("activations", "grad_utils", "performance", "privacy", "tf_utils")
)
