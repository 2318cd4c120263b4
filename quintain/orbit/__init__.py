"""The outer loop: train, evaluate, save, and write summaries, whatever is being trained.

`Controller` owns time, an `AbstractTrainer` and an `AbstractEvaluator` own the computation. Most
programs derive from `StandardTrainer` and `StandardEvaluator`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quintain.orbit import actions, controller, runner, standard_runner, utils
    from quintain.orbit.controller import Action, Controller
    from quintain.orbit.interruption import Interrupted, Interruption
    from quintain.orbit.reporter import LogReporter, Reporter
    from quintain.orbit.runner import AbstractEvaluator, AbstractTrainer
    from quintain.orbit.standard_runner import (
        StandardEvaluator,
        StandardEvaluatorOptions,
        StandardTrainer,
        StandardTrainerOptions,
    )

__all__ = [
    "AbstractEvaluator",
    "AbstractTrainer",
    "Action",
    "Controller",
    "Interrupted",
    "Interruption",
    "LogReporter",
    "Reporter",
    "StandardEvaluator",
    "StandardEvaluatorOptions",
    "StandardTrainer",
    "StandardTrainerOptions",
    "actions",
    "controller",
    "runner",
    "standard_runner",
    "utils",
]

_MODULE_OF_NAME = {
    "AbstractEvaluator": "runner",
    "AbstractTrainer": "runner",
    "Action": "controller",
    "Controller": "controller",
    "Interrupted": "interruption",
    "Interruption": "interruption",
    "LogReporter": "reporter",
    "Reporter": "reporter",
    "StandardEvaluator": "standard_runner",
    "StandardEvaluatorOptions": "standard_runner",
    "StandardTrainer": "standard_runner",
    "StandardTrainerOptions": "standard_runner",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for: TensorFlow is not loaded for the reporters."""
    if name in {"actions", "controller", "runner", "standard_runner", "utils"}:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _MODULE_OF_NAME:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
