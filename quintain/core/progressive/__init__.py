"""Trains in stages: a small model on easy data first, then larger ones that start from it.

Modules load on first use, so that reading a config does not wait for TensorFlow.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__, ("configs", "policies", "staged_policy", "trainer")
)
