"""User code run as a trial: what users subclass, and what drives it.

Names load on first use, so that naming the package does not load TensorFlow.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "base_trial": (
            "DistributedContext",
            "InvalidHP",
            "TrialContext",
            "get_download_data_dir",
            "get_experiment_config",
            "get_hyperparameters",
            "get_trial_seed",
            "wrap_dataset",
            "wrap_optimizer",
        ),
        "estimator_trial": ("EstimatorTrial",),
        "keras_trial": ("KerasTrial",),
        "task_trial": ("TaskTrial",),
        "tensorflow_trial": ("TensorFlowTrial",),
    },
)
