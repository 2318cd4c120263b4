"""Log of a run's training loops: one line of JSON a loop, in `training.jsonl`."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from quintain.checkpoints import evaluation_log
from quintain.files import file_paths, json_lines, whole_files

FILE_NAME: Final = "training.jsonl"


class TrainingLog:
    """Appends the output of every loop, with its last step and the time.

    Lines of steps that a run was thrown back from are dropped: the file always reads as if the run
    had never stopped. So is half a line, which a kill may leave.

    Example:
        >>> import tempfile
        >>> log = TrainingLog(tempfile.mkdtemp(), clock=lambda: 1.5)
        >>> log.record(10, {"training_loss": 0.5})
        >>> log.record(20, {"training_loss": 0.25})
        >>> log.drop_after(10)
        >>> log.read()
        [{'step': 10, 'time_secs': 1.5, 'metrics': {'training_loss': 0.5}}]
    """

    def __init__(self, directory: str, clock: Callable[[], float] = time.time) -> None:
        """Stores the directory of the record; nothing is read or written yet.

        Attributes:
            last_time: Time of the newest line that this object has written, or None.

        Args:
            directory: Directory of the run.
            clock: Returns the time in seconds since the epoch.
        """
        self._path = file_paths.join(directory, FILE_NAME)
        self._clock = clock
        self._last_step: int | None = None
        self.last_time: float | None = None

    def record(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Appends a line, after dropping those of `step` and later ones."""
        if self._last_step is None or step <= self._last_step:
            self.drop_after(step - 1)
        time_secs = self._clock()
        entry = {
            "step": step,
            "time_secs": time_secs,
            "metrics": evaluation_log.to_plain(metrics),
        }
        whole_files.append(self._path, json.dumps(entry))
        self._last_step = step
        self.last_time = time_secs

    def drop_after(self, step: int) -> None:
        """Drops the lines of steps after `step`, and a torn end."""
        entries = self.read()
        kept = [entry for entry in entries if entry["step"] <= step]
        self._last_step = step
        if kept != entries or json_lines.is_torn(self._path):
            json_lines.write(self._path, kept)

    def read(self) -> list[dict[str, Any]]:
        """Returns all entries, by rising step.

        Raises:
            DamagedFileError: If a line before the last ones can't be understood.
        """
        return json_lines.read(self._path)
