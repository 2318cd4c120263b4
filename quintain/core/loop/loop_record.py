"""First step of a loop, and the batches drawn for it."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from quintain import orbit
from quintain.checkpoints import recovery_state
from quintain.distribute import distribution

SINGLE = ""
"""Name of the data of a trainer that has only one."""


class LoopRecord:
    """Counts the batches of a trainer: those it used, and those that a recovery left out.

    A trainer has one iterator, or a mapping of several by the names of their tasks; one that has
    only one goes by the name `SINGLE`.
    """

    def __init__(
        self,
        trainer: orbit.StandardTrainer,
        global_step: tf.Variable,
        count_used: Callable[[], Mapping[str, int]],
    ) -> None:
        """Stores whose batches are counted.

        Args:
            trainer: Has the iterators.
            global_step: `[]` integer variable.
            count_used: Returns the batches that the run has trained on so far, by name of the data.
        """
        self._trainer = trainer
        self._global_step = global_step
        self._count_used = count_used
        self._state = recovery_state.RecoveryState()
        self._start_step = 0
        self._start_counts: Mapping[str, int] = {}
        self._has_begun = False

    @property
    def state(self) -> recovery_state.RecoveryState:
        """Recoveries of the run from divergence, and their effects."""
        return self._state

    @property
    def start_step(self) -> int:
        """Step at which the running or the last loop began."""
        return self._start_step

    @property
    def has_begun(self) -> bool:
        """True if there was a loop in this process, so that data was drawn."""
        return self._has_begun

    def begin_loop(self) -> None:
        """Takes note that a loop begins."""
        self._start_step = int(self._global_step.numpy())
        self._start_counts = dict(self._count_used())
        self._has_begun = True

    def count_loop_batches(self) -> dict[str, int]:
        """Returns the batches that the running or the last loop used, by name of the data."""
        return {
            name: count - self._start_counts.get(name, 0)
            for name, count in self._count_used().items()
        }

    def count_drawn(self, name: str = SINGLE) -> int:
        """Returns the batches drawn since the start of the run: those used and those left out."""
        return self._count_used()[name] + self._state.count_skipped(name)

    def skip(self, counts: Mapping[str, int]) -> None:
        """Draws batches and drops them; stops where the data ends.

        Workers that train asynchronously draw for themselves, and a recovery does not take them
        back to batches they have drawn: nothing is left to drop.
        """
        if distribution.is_asynchronous(self._trainer.strategy):
            return
        iterators: Any = self._trainer.ensure_train_iterator()
        if not isinstance(iterators, Mapping):
            iterators = {SINGLE: iterators}
        for name, count in counts.items():
            for _ in range(count):
                try:
                    next(iterators[name])
                except (StopIteration, tf.errors.OutOfRangeError):
                    break
