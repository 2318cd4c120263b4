"""Trials: user code that the platform trains, and its drivers.

Names load on first use, so that naming the package does not load TensorFlow.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("estimator", "keras", "tensorflow"),
    names={
        "base_trial": ("InvalidHP", "Trial"),
        "distributed_context": ("DistributedContext",),
        "graphs.estimator_trial": ("EstimatorTrial",),
        "keras.keras_trial": ("KerasTrial",),
        "task_trial": ("TaskTrial",),
        "graphs.tensorflow_trial": ("TensorFlowTrial",),
        "trial_context": (
            "TrialContext",
            "get_download_data_dir",
            "get_experiment_config",
            "get_experiment_id",
            "get_hyperparameter",
            "get_hyperparameters",
            "get_trial_id",
            "get_trial_seed",
            "is_valid_url",
            "wrap_dataset",
            "wrap_model",
            "wrap_optimizer",
        ),
    },
)
