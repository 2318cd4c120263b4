"""Quintain trains TensorFlow models and searches their hyperparameters.

`import quintain as tfm` gives the training library: `tfm.core`, `tfm.nlp`, `tfm.modeling`,
`tfm.optimization`, `tfm.orbit`, `tfm.common`, `tfm.utils`, `tfm.config` and its other name
`tfm.hyperparams`. They load when they are first used.
"""

from quintain import lazy_modules
from quintain.reference import reference_imports

__version__ = "0.1.0"

reference_imports.install()

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("garden.common", "config", "core", "modeling", "nlp", "optimization", "orbit", "garden.utils"),
    names={"run.fitting.fit": ["fit"], "run.history": ["read_history"]},
)
