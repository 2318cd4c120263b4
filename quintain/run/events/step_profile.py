"""Profiler of some steps of a run, for TensorBoard."""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.run.events import prepared_action

MAX_STEPS: Final = 1_000
"""Steps that may be profiled; a profile grows with every operation that is run."""

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class StepRange:
    """Steps to profile: those after `start`, up to `stop`."""

    start: int
    stop: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `START:STOP`.

        Raises:
            ConfigError: If it is not two whole numbers, the second larger than the first.
        """
        start, _, stop = text.partition(":")
        if not (start.isdecimal() and stop.isdecimal()) or int(start) >= int(stop):
            raise errors.ConfigError(
                f"--profile: got {text!r}, expected START:STOP with 0 <= START < STOP, such as "
                "100:110."
            )
        if int(stop) - int(start) > MAX_STEPS:
            raise errors.ConfigError(
                f"--profile: got {text!r}, expected at most {MAX_STEPS:,} steps; a profile of more "
                "can't be looked at."
            )
        return cls(int(start), int(stop))

    @property
    def boundaries(self) -> tuple[int, int]:
        """The steps at which a loop has to end, so that no other step is profiled."""
        return self.start, self.stop


class ProfileSteps(prepared_action.PreparedAction):
    """Train action that profiles a range of steps.

    No loop may cross where the range starts or stops; see `Controller(loop_boundaries=...)`.
    """

    def __init__(
        self,
        step_range: StepRange,
        global_step: tf.Variable,
        log_dir: str,
        report: Callable[[str], None],
    ) -> None:
        """Stores what to profile, and where to.

        Args:
            step_range: The steps.
            global_step: Scalar: steps done.
            log_dir: Directory; the profile is in `plugins/profile` below it.
            report: Tells the user where it is.
        """
        self._range = step_range
        self._global_step = global_step
        self._log_dir = log_dir
        self._report = report
        self._is_running = False

    @override
    def begin(self) -> None:
        """Starts, if the run starts in the range."""
        step = int(self._global_step.numpy())
        if step >= self._range.stop:
            self._report(
                f"Nothing is profiled: the run is at step {step}, after --profile="
                f"{self._range.start}:{self._range.stop}."
            )
        self._start_or_stop(step)

    @override
    def __call__(self, output: Mapping[str, Any]) -> None:
        del output
        self._start_or_stop(int(self._global_step.numpy()))

    def close(self) -> None:
        """Writes what was profiled so far; for runs that end before the range does."""
        if not self._is_running:
            return
        self._is_running = False
        tf.profiler.experimental.stop()
        profiles = file_paths.join(self._log_dir, "plugins", "profile")
        names = file_io.listdir(profiles) if file_io.isdir(profiles) else []
        where = max((file_paths.join(profiles, name) for name in names), default=self._log_dir)
        self._report(
            f"The profile is in {where}. To look at it: pip install tensorboard-plugin-profile, "
            f"then tensorboard --logdir={self._log_dir}"
        )

    def _start_or_stop(self, step: int) -> None:
        is_inside = self._range.start <= step < self._range.stop
        if is_inside and not self._is_running:
            self._is_running = True
            tf.profiler.experimental.start(self._log_dir)
        elif not is_inside:
            self.close()
