"""Rungs: the lengths at which trials of one search are compared, and their results there."""

import bisect
import dataclasses
import math
from collections.abc import Callable, Sequence


@dataclasses.dataclass
class Rung:
    """The results at one length of training, best first."""

    length: int
    """Units of training."""

    metrics: list[float] = dataclasses.field(default_factory=list)
    """Metrics, rising; of equal ones first those of trials that went on, then by the order in which
    the trials were created."""

    request_ids: list[str] = dataclasses.field(default_factory=list)
    """The trials of `metrics`."""

    promoted: set[str] = dataclasses.field(default_factory=set)
    """Trials that went on."""

    outstanding: set[str] = dataclasses.field(default_factory=set)
    """Trials on their way here."""

    order: dict[str, int] = dataclasses.field(default_factory=dict)
    """When trials were created, so that it does not matter which of equal ones came first."""

    num_known: int = 0
    """Results of earlier trials, which `learn` added; they count as trials that went on."""

    @property
    def num_results(self) -> int:
        """Results of the search's own trials."""
        return len(self.metrics) - self.num_known

    @property
    def num_promoted(self) -> int:
        """Own trials that went on."""
        return len(self.promoted) - self.num_known

    def learn(self, name: str, metric: float) -> None:
        """Adds the result of an earlier trial, with which others are compared."""
        self.promoted.add(name)
        self.insert(name, metric)
        self.num_known += 1

    def count_as_good(self, metric: float) -> int:
        """Returns how many results are better than a metric, or equal to it."""
        return bisect.bisect_right(self.metrics, metric)

    def insert(self, request_id: str, metric: float) -> int:
        """Adds a result and returns its rank, from 0.

        It comes behind equal ones that went on already: else more trials would go on, only because
        an older one has its result later.
        """
        index = self.count_as_good(metric)
        key = self._key(request_id)
        while (
            index
            and self.metrics[index - 1] == metric
            and self._key(self.request_ids[index - 1]) > key
        ):
            index -= 1
        self.metrics.insert(index, metric)
        self.request_ids.insert(index, request_id)
        return index

    def is_among_best(self, request_id: str, metric: float, divisor: float) -> bool:
        """Adds a result; returns whether it is among the best `1 / divisor`, at least one, so far.

        It comes behind all equal ones: which of them came first must not change how many go on.
        """
        rank = self.count_as_good(metric)
        self.insert(request_id, metric)
        return rank < max(int(len(self.metrics) / divisor), 1)

    def _key(self, request_id: str) -> tuple[bool, int]:
        """Returns what orders trials with equal metrics."""
        return request_id not in self.promoted, self.order.get(request_id, len(self.order))

    def remove(self, request_id: str) -> None:
        """Forgets the result of a trial, if there is one."""
        if request_id in self.request_ids:
            index = self.request_ids.index(request_id)
            del self.metrics[index], self.request_ids[index]
            self.promoted.discard(request_id)

    def choose_promotion(
        self, request_id: str, metric: float, count_promoted: Callable[[int], int]
    ) -> str | None:
        """Adds a result and returns the trial that goes on because of it, if there is one.

        Args:
            request_id: The trial.
            metric: Its metric.
            count_promoted: How many of so many results go on; grows by at most 1 for each.
        """
        former_room = count_promoted(len(self.metrics))
        room = count_promoted(len(self.metrics) + 1)
        chosen = None
        if self.insert(request_id, metric) < room:
            chosen = request_id
        elif room != former_room and self.request_ids[former_room] not in self.promoted:
            chosen = self.request_ids[former_room]
        if chosen is not None:
            index = self.request_ids.index(chosen)
            del self.request_ids[index]
            self.promoted.add(chosen)
            self.insert(chosen, self.metrics.pop(index))
        return chosen


def left_by_stopping(rungs: Sequence[Rung], num_trials: int, divisor: float) -> float:
    """Returns the units still to train where a trial goes on if it is among the best so far.

    Of `n` results in random order, the last one is among the best with probability
    `max(n / divisor, 1) / n`.

    Args:
        rungs: Results so far.
        num_trials: Trials that get a result in the first rung, in all.
        divisor: One trial of so many goes on.
    """
    expected: float = num_trials
    units, former = 0.0, 0
    for rung in rungs:
        present = len(rung.metrics)
        coming = max(expected - rung.num_results, 0.0)
        units += coming * (rung.length - former)
        former = rung.length
        sure = min(max(divisor - present, 0.0), coming)
        going_on = math.log((present + sure + 0.5) / (present + 0.5)) + (coming - sure) / divisor
        expected = rung.num_promoted + min(going_on, coming)
    return units
