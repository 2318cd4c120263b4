"""Losses of language tasks."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("weighted_sparse_categorical_crossentropy",),
    names={
        "weighted_sparse_categorical_crossentropy": (
            "weighted_sparse_categorical_crossentropy_loss",
        )
    },
)
