"""Text: translation models, their data, their scores.

Sub-packages load on first use, so that naming `quintain.nlp` does not load TensorFlow.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    (
        "configs",
        "continuous_finetune_lib",
        "data",
        "experiments",
        "metrics",
        "modeling",
        "serving",
        "tasks",
    ),
)
