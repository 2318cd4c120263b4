"""User code run as a trial: what users subclass, and what drives it.

Names load on first use, so that naming the package does not load TensorFlow.
"""

import importlib
from typing import Any

_NAMES = {
    "DistributedContext": "base_trial",
    "EstimatorTrial": "estimator_trial",
    "InvalidHP": "base_trial",
    "KerasTrial": "keras_trial",
    "TaskTrial": "task_trial",
    "TensorFlowTrial": "tensorflow_trial",
    "TrialContext": "base_trial",
    "get_download_data_dir": "base_trial",
    "get_experiment_config": "base_trial",
    "get_hyperparameters": "base_trial",
    "get_trial_seed": "base_trial",
    "wrap_dataset": "base_trial",
    "wrap_optimizer": "base_trial",
}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
