"""Outer loop of training: trains, evaluates, saves and writes summaries.

`Controller` owns time, an `AbstractTrainer` and an `AbstractEvaluator` own the computation. Most
programs derive from `StandardTrainer` and `StandardEvaluator`.
"""

from typing import TYPE_CHECKING

from quintain import lazy_modules

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

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("actions", "controller", "runner", "standard_runner", "utils"),
    names={
        "controller": ("Action", "Controller"),
        "interruption": ("Interrupted", "Interruption"),
        "reporter": ("LogReporter", "Reporter"),
        "runner": ("AbstractEvaluator", "AbstractTrainer"),
        "standard_runner": (
            "StandardEvaluator",
            "StandardEvaluatorOptions",
            "StandardTrainer",
            "StandardTrainerOptions",
        ),
    },
)
