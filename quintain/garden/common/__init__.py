"""Helpers of training programs: flags, strategies, registration of experiments.

The modules load when they are first used.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__, ("distribute_utils", "flags", "registry_imports")
)
