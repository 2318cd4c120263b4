"""Interfaces between the outer loop and the code that computes.

`Controller` decides when to train, evaluate and save. How `num_steps` steps are run is up to an
`AbstractTrainer` and an `AbstractEvaluator`. Most programs derive from the implementations in
`standard_runner`, which already know how to iterate over a dataset inside a `tf.function`.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from quintain.orbit import interruption as interruption_lib

Output = Mapping[str, Any]
"""Names to scalars; a nested mapping becomes a sub-directory of summaries."""


class AbstractTrainer(tf.Module, metaclass=abc.ABCMeta):
    """Runs a number of train steps when told to."""

    interruption: interruption_lib.Interruption | None = None
    """Set by `Controller`. A trainer that looks at it may return before all steps are done."""

    train_data_exhausted: bool = False
    """Set by the trainer when it returned early because the training data ended."""

    @abc.abstractmethod
    def train(self, num_steps: tf.Tensor) -> Output | None:
        """Runs `num_steps` train steps.

        Args:
            num_steps: `[]` int32, at least 1. A tensor, so that a change of its value does not
                retrace a `tf.function` that takes it.

        Returns:
            What to log and to write as summaries, or None for nothing. When `interruption` was
            requested and fewer steps were done, the trainer must return None and leave the state
            of its metrics alone: the rest of the loop is run after a restart.
        """


class AbstractEvaluator(tf.Module, metaclass=abc.ABCMeta):
    """Runs an evaluation when told to."""

    interruption: interruption_lib.Interruption | None = None
    """Set by `Controller`. An evaluator that looks at it raises `EvaluationInterrupted`."""

    eval_step_listener: Callable[[int], None] | None = None
    """Set by `Controller`. Called with the number of evaluation steps done so far."""

    @abc.abstractmethod
    def evaluate(self, num_steps: tf.Tensor) -> Output | None:
        """Runs `num_steps` evaluation steps.

        Args:
            num_steps: `[]` int32. -1 evaluates until the data ends.

        Returns:
            What to log and to write as summaries, or None for nothing.

        Raises:
            EvaluationInterrupted: If `interruption` was requested before it was complete.
        """
