"""Names of `pedl.frameworks.keras` and `determined.keras`, for trials of Keras models."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("callbacks",),
    names={
        "callbacks": ("TFKerasTensorBoard",),
        "data": ("ArrayLike", "InputData", "KerasDataAdapter", "SequenceAdapter"),
        "names": (
            "KerasFunctionalTrial",
            "KerasTrial",
            "TFKerasContext",
            "TFKerasExperimentalContext",
            "TFKerasTrial",
            "TFKerasTrialContext",
            "wrap_dataset",
            "wrap_model",
            "wrap_optimizer",
        ),
    },
)
