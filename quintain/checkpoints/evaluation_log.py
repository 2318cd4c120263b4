"""The record of a run's evaluations: one line of JSON a step, in `evaluations.jsonl`."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from quintain.files import file_paths, json_lines, whole_files

FILE_NAME: Final = "evaluations.jsonl"


class EvaluationLog:
    """Remembers which steps were evaluated, and with what result.

    A resumed run asks it whether the evaluation at its step was lost. The file is rewritten as a
    whole and moved into place, so that a kill never leaves half a line; a step that is evaluated
    again replaces its line. A training and an evaluation may write to it at the same time.

    Example:
        >>> import tempfile
        >>> log = EvaluationLog(tempfile.mkdtemp())
        >>> log.record(10, {"validation_loss": np.float32(0.5)})
        >>> log.has(10), log.get(10)
        (True, {'validation_loss': 0.5})
    """

    def __init__(self, directory: str | None) -> None:
        """Stores the directory of the record; nothing is read or written yet.

        Args:
            directory: Directory of the run. None keeps the record in memory only.
        """
        self._path = None if directory is None else file_paths.join(directory, FILE_NAME)
        self._memory: dict[int, dict[str, Any]] = {}

    def has(self, step: int) -> bool:
        """True if the evaluation at `step` is on record."""
        return step in self._read()

    def get(self, step: int) -> dict[str, Any]:
        """Returns the metrics recorded at `step`, or an empty mapping."""
        return self._read().get(step, {})

    def read(self, until_step: int) -> dict[int, dict[str, Any]]:
        """Returns the metrics recorded at all steps up to `until_step`, by step."""
        return {step: values for step, values in self._read().items() if step <= until_step}

    def read_all(self) -> dict[int, dict[str, Any]]:
        """Returns the metrics recorded at all steps, by step."""
        return dict(self._read())

    def record(self, step: int, metrics: Mapping[str, Any], *, drop_later: bool = True) -> None:
        """Adds the metrics of one evaluation.

        Args:
            step: Step that was evaluated.
            metrics: Its metrics.
            drop_later: Whether later steps on record are dropped. In a training they come from
                before it was thrown back to an earlier checkpoint; they will be evaluated again.
        """
        if self._path is None:
            self._memory = self._add(step, metrics, drop_later)
            return
        with whole_files.directory_locked(file_paths.dirname(self._path)):
            kept = self._add(step, metrics, drop_later)
            json_lines.write(
                self._path,
                ({"step": number, "metrics": values} for number, values in kept.items()),
            )

    def _add(
        self, step: int, metrics: Mapping[str, Any], drop_later: bool
    ) -> dict[int, dict[str, Any]]:
        kept = {
            other: values
            for other, values in self._read().items()
            if other < step or (other > step and not drop_later)
        }
        kept[step] = to_plain(metrics)
        return dict(sorted(kept.items()))

    def _read(self) -> dict[int, dict[str, Any]]:
        if self._path is None:
            return self._memory
        return {entry["step"]: entry["metrics"] for entry in json_lines.read(self._path)}


def to_plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `metrics` with tensors and NumPy values as Python numbers.

    Numbers that JSON can't express become None; larger arrays become nested lists.
    """
    return {name: _to_plain_value(value) for name, value in metrics.items()}


def without_arrays(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what are single numbers or texts among metrics, such as images are not.

    Example:
        >>> without_arrays({"a": {"loss": [0.5], "image": [[1, 2]]}, "b": 3})
        {'a': {'loss': 0.5}, 'b': 3}
    """
    kept: dict[str, Any] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            kept[name] = without_arrays(value)
        elif value is None or isinstance(value, str):
            kept[name] = value
        elif np.ndim(value) <= 1 and np.size(value) == 1:
            kept[name] = np.reshape(value, ()).item()
    return kept


def flatten(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Returns nested metrics, such as those of several tasks, in one: `b` below `a` as `a|b`."""
    from quintain.config import provenance  # noqa: PLC0415 - evaluations do

    flat = provenance.flatten(metrics, "|")
    return {name: value for name, value in flat.items() if not isinstance(value, Mapping)}


def _to_plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return to_plain(value)
    if isinstance(value, str):
        return value
    plain = np.asarray(value).tolist()
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
