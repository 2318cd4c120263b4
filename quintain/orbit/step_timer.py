"""Timer of steps per second."""

import time
from collections.abc import Callable

import tensorflow as tf


class StepTimer:
    """Measures steps per second between two moments.

    Example:
        >>> step = tf.Variable(0, dtype=tf.int64)
        >>> clock = iter([10.0, 12.0])
        >>> timer = StepTimer(step, clock=lambda: next(clock))
        >>> _ = step.assign(6)
        >>> timer.steps_per_second()
        3.0
    """

    def __init__(
        self, step: tf.Variable, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Starts to measure.

        Args:
            step: `[]` integer variable that counts steps.
            clock: Returns seconds.
        """
        self.step = step
        self._clock = clock
        self.start()

    def start(self) -> None:
        """Starts again from the current step."""
        self._start_step = int(self.step.numpy())
        self._start_secs = self._clock()

    def steps_per_second(self, restart: bool = True) -> float:
        """Returns the rate since the start (0 if no time has passed).

        Args:
            restart: Whether the next measurement starts here.
        """
        step, now_secs = int(self.step.numpy()), self._clock()
        num_steps, secs = step - self._start_step, now_secs - self._start_secs
        if restart:
            self._start_step, self._start_secs = step, now_secs
        return num_steps / secs if secs > 0 else 0.0
