"""Processor time of a training, its points of evaluation and its learning rate over this time."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np


class Budget:
    """Clock of a run: processor time after the first step, without evaluations.

    Args:
        task: `points`, seconds at which to evaluate; `logits`, the begin of the names of files; and
            `driver`, the process that waits for them.
        warmup: Share of the time in which the learning rate rises.
    """

    def __init__(self, task: dict[str, Any], warmup: float) -> None:
        self._points, self._logits = task["points"], task["logits"]
        self._warmup, self._driver = warmup, task["driver"]
        self._start, self._next = time.process_time(), 0

    def begin(self) -> None:
        """Starts the clock, after the first step."""
        self._start = time.process_time()

    @property
    def secs(self) -> float:
        """Processor time since the first step."""
        return time.process_time() - self._start

    @property
    def is_over(self) -> bool:
        """Whether all points have been evaluated, or nobody waits for the results."""
        return self._next == len(self._points) or os.getppid() != self._driver

    @property
    def factor(self) -> float:
        """Present factor of the learning rate, which falls along a line to 0 after the warm-up."""
        share = min(self.secs / self._points[-1], 1.0)
        rise = (share + 0.002) / self._warmup if self._warmup else 1.0
        return min(rise, (1.0 - share) / (1.0 - self._warmup))

    def maybe_evaluate(self, steps: int, predict: Callable[[], np.ndarray]) -> bool:
        """Saves the logits if a point of time is reached, off the clock; returns whether it is."""
        if self.is_over or (secs := self.secs) < self._points[self._next]:
            return False
        before = time.process_time()
        path = f"{self._logits}-{self._next}.npy"
        np.save(path, predict())
        print(json.dumps({"secs": secs, "steps": steps, "logits": path}), flush=True)
        self._next += 1
        self._start += time.process_time() - before
        return True
