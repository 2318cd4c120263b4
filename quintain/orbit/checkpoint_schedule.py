"""Schedule of the outer loop's checkpoints."""

import tensorflow as tf

from quintain.orbit import reporter as reporter_lib


class CheckpointSchedule:
    """Saves through a checkpoint manager at its interval, and on demand.

    The interval counts from the last checkpoint, and a restored one counts as such. So a run that
    is started again saves at the steps at which it would have saved if it had never stopped. A step
    that was saved is not saved again. A `tf.train.CheckpointManager` decides for itself when its
    interval is over: in a new run after the first loop already.
    """

    def __init__(
        self,
        manager: tf.train.CheckpointManager,
        *,
        enable_async: bool,
        reporter: reporter_lib.Reporter,
    ) -> None:
        """Stores its arguments; nothing is read or written yet.

        Args:
            manager: Where to save. Its `checkpoint_interval` (steps; None or 0 for none) says when.
            enable_async: Whether training goes on while a checkpoint is written; not by a
                `tf.train.CheckpointManager`, which writes at once.
            reporter: Is told of saved and restored checkpoints.
        """
        self._manager = manager
        self._reporter = reporter
        self._decides_itself = isinstance(manager, tf.train.CheckpointManager)
        # TensorFlow's way (2.21) fails over Keras 3's layers, or leaves their variables out.
        self._enable_async = enable_async and not self._decides_itself
        self._interval_start: int | None = None
        self._saved_step: int | None = None

    @property
    def has_interval(self) -> bool:
        """True if checkpoints are saved on the way, not only at the end."""
        return bool(self._manager.checkpoint_interval)

    def restored(self, step: int, path: str) -> None:
        """Takes note that the state is that of the checkpoint at `path`."""
        self._interval_start = step
        self._saved_step = step
        self._reporter.on_restore(step, path)

    def resume(self, saved_step: int) -> None:
        """Takes note that the newest checkpoint is of this step, which may be before the state."""
        self._interval_start = self._saved_step = saved_step

    def begin(self, step: int) -> None:
        """Takes note that training starts at `step`; the interval counts from the first start."""
        if self._interval_start is None:
            self._interval_start = step

    def maybe_save(self, step: int) -> bool:
        """Saves if the interval is over; returns whether it did."""
        if not self.has_interval or self._interval_start is None:
            return False
        if self._decides_itself:
            return self._save(step, check_interval=True)
        # A step before the start means that someone set the step back, for example to an earlier
        # checkpoint; the interval then starts over there.
        if step < self._interval_start:
            self._interval_start = step
            self._saved_step = None
            return False
        if step - self._interval_start < self._manager.checkpoint_interval:
            return False
        return self.save(step)

    def save(self, step: int) -> bool:
        """Saves unless this step was the last one saved; returns whether it did."""
        return step != self._saved_step and self._save(step, check_interval=False)

    def _save(self, step: int, *, check_interval: bool) -> bool:
        path = self._manager.save(
            checkpoint_number=step,
            check_interval=check_interval,
            options=tf.train.CheckpointOptions(enable_async=self._enable_async),
        )
        if path or not check_interval:
            self._interval_start = self._saved_step = step
        if path:
            self._reporter.on_checkpoint(step, path)
        return bool(path)

    def sync(self) -> None:
        """Waits until every checkpoint is on disk."""
        self._manager.sync()
