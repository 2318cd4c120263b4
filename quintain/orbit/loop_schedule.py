"""Lengths of train loops, and the step of the next evaluation."""

from collections.abc import Callable, Sequence

import tensorflow as tf

StepsPerLoop = int | Callable[[int], int]
"""Steps of a loop, or a function of the global step that returns them."""


class LoopSchedule:
    """Lengths of train loops, with the memory of a loop that was cut short.

    A loop's outputs are averages over its steps. A run that was interrupted in the middle of a loop
    finishes that loop first when it is started again, so that it logs what it would have logged
    without the interruption.
    """

    def __init__(
        self,
        steps_per_loop: StepsPerLoop,
        position: tf.Variable | None,
        boundaries: Sequence[int] = (),
    ) -> None:
        """Stores the length of a loop.

        Args:
            steps_per_loop: At least 1.
            position: `[]` integer variable for the steps that an interrupted loop has left, else 0.
                None forgets them.
            boundaries: Global steps that no loop crosses, whatever its length.

        Raises:
            ValueError: If `steps_per_loop` is less than 1.
        """
        if not callable(steps_per_loop):
            _check(steps_per_loop)
        self._steps_per_loop = steps_per_loop
        self._position = position
        self._boundaries = tuple(boundaries)

    @property
    def steps_left(self) -> int:
        """Steps that an interrupted loop has left, else 0."""
        return 0 if self._position is None else int(self._position.numpy())

    def set_steps_left(self, num_steps: int) -> None:
        """Remembers what an interrupted loop has left; 0 once a loop is complete."""
        if self._position is not None and self.steps_left != num_steps:
            self._position.assign(num_steps)

    def steps_per_loop(self, step: int) -> int:
        """Returns the steps of an ordinary loop that starts at a global step.

        Raises:
            ValueError: If a function returned less than 1.
        """
        if not callable(self._steps_per_loop):
            return self._steps_per_loop
        num_steps = self._steps_per_loop(step)
        _check(num_steps)
        return num_steps

    def next_loop_steps(self, step: int, end_step: int) -> int:
        """Returns the steps of the next loop, which must not go beyond `end_step`."""
        ends = [end_step, *(end for end in self._boundaries if end > step)]
        return min(self.steps_left or self.steps_per_loop(step), min(ends) - step)


def next_evaluation_step(step: int, train_steps: int, eval_interval: int | None) -> int:
    """Returns the first multiple of the interval after `step`, or the end if that is sooner."""
    if eval_interval is None:
        return train_steps
    return min((step // eval_interval + 1) * eval_interval, train_steps)


def is_evaluation_step(step: int, train_steps: int, eval_interval: int | None) -> bool:
    """Returns whether there is an evaluation at `step`, which must not be 0."""
    return step >= train_steps or (eval_interval is not None and step % eval_interval == 0)


def parse_eval_interval(interval: int | None) -> int | None:
    """Returns the steps between evaluations, None for none on the way, which 0 means as well.

    Raises:
        ValueError: If it is negative.
    """
    if interval is not None and interval < 0:
        raise ValueError(f"`eval_interval`: got {interval!r}, expected an integer >= 1.")
    return interval or None


def check_summary_interval(interval: int, steps_per_loop: StepsPerLoop) -> None:
    """Checks that summaries are due at the beginning of loops only.

    Raises:
        ValueError: If the interval is less than 1, or no multiple of a fixed `steps_per_loop`.
    """
    if interval < 1:
        raise ValueError(f"`summary_interval`: got {interval!r}, expected an integer >= 1.")
    if not callable(steps_per_loop) and interval % steps_per_loop != 0:
        raise ValueError(
            f"`summary_interval` must be a multiple of `steps_per_loop`, but got "
            f"summary_interval={interval} and steps_per_loop={steps_per_loop}."
        )


def _check(steps_per_loop: object) -> None:
    if not isinstance(steps_per_loop, int) or steps_per_loop < 1:
        raise ValueError(f"`steps_per_loop`: got {steps_per_loop!r}, expected an integer >= 1.")
