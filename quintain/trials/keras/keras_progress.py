"""Where in its epoch a training of a Keras model is."""

from collections.abc import Mapping
from typing import Any

import numpy as np


class Progress:
    """Where in its epoch a training is, and what the epoch measured so far."""

    def __init__(self) -> None:
        self.epoch = 0
        self.batch = 0
        self.is_due = False
        """Whether the epoch is over, and its callbacks were not called yet."""
        self.sums: dict[str, float] = {}
        self.validation: dict[str, Any] = {}

    def add(self, logs: list[dict[str, Any]]) -> None:
        """Counts batches in."""
        self.batch += len(logs)
        for batch in logs:
            for name, value in batch.items():
                self.sums[name] = self.sums.get(name, 0.0) + float(np.mean(value))

    def logs(self) -> dict[str, Any]:
        """Returns the means of the epoch and the metrics of its last validation."""
        means = {name: total / max(self.batch, 1) for name, total in self.sums.items()}
        return {**means, **self.validation}

    def start_epoch(self) -> None:
        """Goes to the beginning of the next epoch."""
        epoch = self.epoch + 1
        self.__init__()  # type: ignore[misc]
        self.epoch = epoch

    def to_plain(self) -> dict[str, Any]:
        """Returns all of it as plain data."""
        return dict(vars(self))

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "Progress":
        """Returns what `to_plain` was called on."""
        progress = cls()
        vars(progress).update(values)
        return progress
