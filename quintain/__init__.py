"""Quintain trains TensorFlow models and searches their hyperparameters.

`import quintain as tfm` gives the training library: `tfm.core`, `tfm.nlp`, `tfm.modeling`,
`tfm.optimization`, `tfm.orbit`, `tfm.common`, `tfm.utils`, `tfm.config` and its other name
`tfm.hyperparams`. They load when they are first used.
"""

from quintain import deferred_imports, lazy_modules, onednn, quiet_tensorflow, reference_imports

__version__ = "0.1.0"

onednn.turn_cache_off()
quiet_tensorflow.install()
deferred_imports.install()
reference_imports.install()

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("common", "config", "core", "modeling", "nlp", "optimization", "orbit", "utils"),
    names={"core.fitting.fit": ["fit"], "core.history": ["read_history"]},
)
