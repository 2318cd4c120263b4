"""Parts of differentially private training; the modules load when they are first used.

Trainings that are described by a config have it in `task.differential_privacy_config`.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(__name__, ("ops",))
