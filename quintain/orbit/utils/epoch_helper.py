"""Epoch counter for training loops that are written by epochs."""

import tensorflow as tf


class EpochHelper:
    """Tells from the global step when epochs begin and end.

    Example:
        >>> step = tf.Variable(0, dtype=tf.int64)
        >>> epochs = EpochHelper(epoch_steps=10, global_step=step)
        >>> epochs.epoch_begin(), epochs.epoch_end()
        (True, False)
        >>> _ = step.assign(10)
        >>> epochs.epoch_end()
        True
    """

    def __init__(self, epoch_steps: int, global_step: tf.Variable) -> None:
        """Stores the length of an epoch.

        Args:
            epoch_steps: Steps in an epoch, at least 1.
            global_step: `[]` integer variable that counts steps.

        Raises:
            ValueError: If `epoch_steps` is less than 1.
        """
        if epoch_steps < 1:
            raise ValueError(f"`epoch_steps`: got {epoch_steps!r}, expected an integer >= 1.")
        self._epoch_steps = epoch_steps
        self._global_step = global_step
        self._current_epoch: int | None = None
        self._epoch_start_step = 0
        self._in_epoch = False

    def epoch_begin(self) -> bool:
        """Begins an epoch unless one is under way; returns whether it did."""
        if self._in_epoch:
            return False
        self._epoch_start_step = int(self._global_step.numpy())
        self._current_epoch = self._epoch_start_step // self._epoch_steps
        self._in_epoch = True
        return True

    def epoch_end(self) -> bool:
        """Ends the epoch if all of its steps are done; returns whether it did.

        Raises:
            ValueError: If no epoch is under way.
        """
        if not self._in_epoch or self._current_epoch is None:
            raise ValueError("No epoch is under way; call `epoch_begin()` before `epoch_end()`.")
        if int(self._global_step.numpy()) // self._epoch_steps <= self._current_epoch:
            return False
        self._in_epoch = False
        return True

    @property
    def batch_index(self) -> int:
        """Steps done since the epoch began."""
        return int(self._global_step.numpy()) - self._epoch_start_step

    @property
    def current_epoch(self) -> int | None:
        """Number of the epoch, from 0; None before the first one."""
        return self._current_epoch
