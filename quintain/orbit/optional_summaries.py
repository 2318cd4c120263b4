"""Compilation of a function twice: with summaries and without."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


class OptionalSummariesFunction:
    """Compiles a function twice: once as it is, and once with all summaries switched off.

    On a TPU a conditional summary costs time even when it is not taken. A subclass decides in
    `__call__` which program to run. It can decorate functions and methods.

    Attributes:
        with_summaries: Records summaries under the conditions in force, on the host if the device
            cannot.
        without_summaries: Records none.
    """

    def __init__(self, function: Callable[..., Any], **tf_function_kwargs: Any) -> None:
        """Wraps `function`; it is traced at the first call."""

        @functools.wraps(function)
        def run_with(*args: Any, **kwargs: Any) -> Any:
            with _soft_device_placement():
                return function(*args, **kwargs)

        @functools.wraps(function)
        def run_without(*args: Any, **kwargs: Any) -> Any:
            with tf.summary.record_if(False):
                return function(*args, **kwargs)

        self.with_summaries = tf.function(run_with, **tf_function_kwargs)
        self.without_summaries = tf.function(run_without, **tf_function_kwargs)

    def __get__(self, instance: Any, owner: type) -> Any:
        """Binds both programs to the instance whose method this is."""
        bound = object.__new__(type(self))
        bound.with_summaries = self.with_summaries.__get__(instance, owner)
        bound.without_summaries = self.without_summaries.__get__(instance, owner)
        return bound


class LoopFnWithSummaries(OptionalSummariesFunction):
    """Runs a graph's loop; its first step records summaries if they are due, the others do not.

    Wraps what `create_tf_while_loop_fn` returns.
    """

    def __call__(self, iterator: Any, num_steps: tf.Tensor) -> tf.Tensor:
        """Runs `num_steps` steps and returns how many were done, `[]` int32."""
        if not tf.summary.should_record_summaries():
            return self.without_summaries(iterator, num_steps)
        num_steps_done = self.with_summaries(iterator, tf.ones_like(num_steps))
        if num_steps_done < 1 or num_steps <= 1:
            return num_steps_done
        return num_steps_done + self.without_summaries(iterator, num_steps - 1)


@contextlib.contextmanager
def _soft_device_placement() -> Iterator[None]:
    previous = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(True)
    try:
        yield
    finally:
        tf.config.set_soft_device_placement(previous)
