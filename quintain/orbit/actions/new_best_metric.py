"""Condition that a metric has reached a new best value, persisted across restarts."""

import json
import math
import sys
from collections.abc import Callable
from typing import Any

from quintain.files import file_io, whole_files
from quintain.orbit import runner, values

MetricFn = Callable[[runner.Output], Any]
"""Takes an output and returns the metric, a number."""


class NewBestMetric:
    """A condition that holds when a metric beats the best value so far.

    `test` only looks; `commit` looks and remembers. To remember a value only once the work for it
    is done:

        best = NewBestMetric("accuracy", filename="runs/a/best_accuracy.json")
        ConditionalAction(best.test, [ExportSavedModel(...), best.commit])

    Calling the object commits. NaN never is a new best.

    Attributes:
        metric: Name or function that finds the metric in the output.
        higher_is_better: Which direction is better.
    """

    def __init__(
        self,
        metric: str | MetricFn,
        higher_is_better: bool = True,
        filename: str | None = None,
        write_metric: bool = True,
    ) -> None:
        """Reads the best value so far, if there is a file of it.

        Args:
            metric: Name of an output, or a function of the outputs.
            higher_is_better: Whether a new best has to be greater than the old one, or less.
            filename: JSON file that keeps the best value across restarts. None keeps none.
            write_metric: Whether to write the file. All processes but one of a distributed training
                should only read.
        """
        self.metric = metric
        self.higher_is_better = higher_is_better
        self._best_value = JSONPersistedValue(
            -sys.float_info.max if higher_is_better else sys.float_info.max,
            filename,
            write_metric,
        )

    def __call__(self, output: runner.Output) -> bool:
        """Does what `commit` does."""
        return self.commit(output)

    @property
    def best_value(self) -> float:
        """The best value so far; before the first, the worst finite one."""
        return float(self._best_value.read())

    def metric_value(self, output: runner.Output) -> float:
        """Returns the metric of an output.

        Raises:
            KeyError: If the output does not have it.
        """
        if callable(self.metric):
            return float(values.get_value(self.metric(output)))
        if self.metric not in output:
            raise KeyError(f"No metric {self.metric!r} in the output; it has {sorted(output)}.")
        return float(values.get_value(output[self.metric]))

    def test(self, output: runner.Output) -> bool:
        """Returns whether the output is better than the best one so far."""
        value = self.metric_value(output)
        if math.isnan(value):
            return False
        return value > self.best_value if self.higher_is_better else value < self.best_value

    def commit(self, output: runner.Output) -> bool:
        """Remembers the value of the output if it is the best so far; returns whether it is."""
        is_best = self.test(output)
        if is_best:
            self._best_value.write(self.metric_value(output))
        return is_best


class JSONPersistedValue:
    """A value that is kept in a JSON file, which is replaced atomically, and read only once."""

    def __init__(
        self,
        initial_value: Any,
        filename: str | None,
        write_value: bool = True,
    ) -> None:
        """Reads the file if there is one, and otherwise writes the initial value to it.

        Args:
            initial_value: Anything that JSON can hold.
            filename: Path of the file; its directory is created. None keeps the value in memory.
            write_value: Whether to write the file, or only to read it.
        """
        self._filename = filename
        self._write_value = write_value
        self._value: Any = None
        if filename is not None and file_io.exists(filename) and file_io.size(filename):
            self._value = whole_files.read_json(filename)
        else:
            self.write(initial_value)

    def read(self) -> Any:
        """Returns the value."""
        return self._value

    def write(self, value: Any) -> None:
        """Sets the value, and replaces the file."""
        if self._filename is not None and self._write_value:
            whole_files.write(self._filename, json.dumps(value), has_rivals=True)
        self._value = value
