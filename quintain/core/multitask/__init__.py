"""Trains one model on several tasks: jointly, or one task at a time in turn.

Modules load on first use, so that reading a config does not wait for TensorFlow.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    (
        "base_model",
        "base_trainer",
        "configs",
        "evaluator",
        "interleaving_trainer",
        "multitask",
        "task_sampler",
        "train_lib",
    ),
)
