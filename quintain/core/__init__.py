"""Trains one model from one config: tasks, configs, trainer, checkpoints and the experiment driver.

What programs name stands here; what it is made of, in rooms of its own. Modules load on first use,
so that reading a config does not wait for TensorFlow.
"""

import importlib
from typing import Any

_ROOMS = {
    "checkpoint_fit": "saving",
    "checkpoints": "saving",
    "distribution": "devices",
    "poisson_sampling": "input",
    "privacy_accounting": "privacy",
    "run_files": "saving",
}
_MODULES = frozenset(
    {
        *_ROOMS,
        "base_task",
        "base_trainer",
        "config_definitions",
        "dry_run",
        "exp_factory",
        "export_base",
        "experiment_parser",
        "experiment_runner",
        "file_writers",
        "input_reader",
        "multitask",
        "progressive",
        "run_kinds",
        "task_factory",
        "tf_example_builder",
        "tf_example_feature_key",
        "train_lib",
        "train_utils",
    }
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        room = f".{_ROOMS[name]}" if name in _ROOMS else ""
        return importlib.import_module(f"{__name__}{room}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_MODULES)
