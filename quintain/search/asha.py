"""Asynchronous successive halving (ASHA): most trials get little training, good ones get more.

Lengths of training form rungs. A trial that is among the best `1 / divisor` of its rung goes on to
the next one.

Source:
    Li et al., 2020, algorithm 2 (https://arxiv.org/abs/1810.05934).
"""

import abc
from collections.abc import Sequence
from typing import NotRequired, TypedDict

import numpy as np
from typing_extensions import Unpack, override

from quintain.search import base_search, known_trial, rungs
from quintain.search import space as space_lib


class Sizes(TypedDict):
    """Size of a bracket."""

    num_rungs: int
    """Rungs."""

    max_length: int
    """Units of training in the last rung."""

    max_trials: int
    """Trials in all."""

    divisor: NotRequired[float]
    """One trial of so many goes on; 4 if it is missing."""

    max_concurrent_trials: NotRequired[int]
    """Trials at work; 0, or missing, for as many as give one in the last rung."""


class _RungSearch(base_search.SearchMethod, abc.ABC):
    """Base of both kinds of ASHA: rungs, and the number of trials at work at first."""

    def __init__(
        self,
        space: space_lib.Space,
        random: np.random.RandomState,
        *,
        num_rungs: int,
        max_length: int,
        max_trials: int,
        divisor: float = 4.0,
        max_concurrent_trials: int = 0,
    ) -> None:
        """Lays out the rungs; see `Sizes`."""
        super().__init__(space, random)
        self.divisor = divisor
        self.max_trials = max_trials
        self.max_concurrent_trials = max_concurrent_trials
        self.rungs = [
            rungs.Rung(length)
            for length in base_search.rung_lengths(max_length, divisor, num_rungs)
        ]
        self._rung_of: dict[str, int] = {}
        self._order: dict[str, int] = {}
        for rung in self.rungs:
            rung.order = self._order

    @override
    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        known_trial.fill_rungs(self.rungs, history)

    @override
    def start(self) -> list[base_search.Operation]:
        return self._create_up_to(min(self._limit, self.max_trials))

    @override
    def list_brackets(self) -> list[Sequence[rungs.Rung]]:
        return [self.rungs]

    @property
    def _limit(self) -> int:
        """Trials at work."""
        full = max(1, int(self.divisor ** (len(self.rungs) - 1)))
        return int(min(self.max_concurrent_trials or full, self.most_ready))

    def _create_up_to(self, count: int) -> list[base_search.Operation]:
        return [operation for _ in range(count) for operation in self._create_next()]

    @abc.abstractmethod
    def _create_next(self) -> list[base_search.Operation]:
        """Starts a trial, if there may be another one."""


class AshaSearch(_RungSearch):
    """ASHA by promotion: a trial waits in its rung until it may go on.

    Each result causes just one more piece of work, the promotion of a trial or a new one, so that
    the number of trials at work stays the same.
    """

    def __init__(
        self, space: space_lib.Space, random: np.random.RandomState, **sizes: Unpack[Sizes]
    ) -> None:
        """Lays out the rungs.

        Args:
            space: The hyperparameters.
            random: Source of all random numbers.
            **sizes: The size of the bracket.
        """
        super().__init__(space, random, **sizes)
        self._exited: set[str] = set()
        self._closed: set[str] = set()
        self._num_invalid = 0
        self._num_closed_rungs = 0

    @override
    def on_validated(
        self, request_id: str, metric: float, length: int
    ) -> list[base_search.Operation]:
        del length
        return self._on_result(request_id, metric)

    @override
    def on_exited_early(
        self, request_id: str, reason: base_search.ExitReason
    ) -> list[base_search.Operation]:
        if reason is base_search.ExitReason.INVALID_HP:
            return self._replace(request_id)
        self._exited.add(request_id)
        self._closed.add(request_id)
        if request_id not in self.rungs[self._rung_of[request_id]].outstanding:
            return []  # It has its result and was waiting for others.
        return self._on_result(request_id, base_search.WORST_METRIC)

    @override
    def extend(self, max_trials: int) -> list[base_search.Operation]:
        room = max_trials - self.max_trials
        self.max_trials = max_trials
        self._num_closed_rungs = 0
        num_at_work = sum(len(rung.outstanding) for rung in self.rungs)
        return self._create_up_to(min(room, max(self._limit - num_at_work, 0)))

    @override
    def left(self) -> float:
        expected: float = self.max_trials
        units, former = 0.0, 0
        for index, rung in enumerate(self.rungs):
            units += max(expected - rung.num_results, 0) * (rung.length - former)
            former = rung.length
            can_grow = index >= self._num_closed_rungs
            expected = max(expected / self.divisor if can_grow else 0, rung.num_promoted)
        return units

    def _replace(self, request_id: str) -> list[base_search.Operation]:
        """Forgets a trial with invalid hyperparameters and starts another one."""
        self._closed.add(request_id)
        self._exited.add(request_id)
        self._num_invalid += 1
        self._num_closed_rungs = 0
        for rung in self.rungs:
            rung.outstanding.discard(request_id)
            rung.remove(request_id)
        return self._create_next()

    @override
    def _create_next(self) -> list[base_search.Operation]:
        create = self.create()
        self._rung_of[create.request_id] = 0
        self._order[create.request_id] = len(self._order)
        self.rungs[0].outstanding.add(create.request_id)
        return [
            create,
            *base_search.train_and_validate(create.request_id, self.rungs[0].length),
        ]

    def _on_result(self, request_id: str, metric: float) -> list[base_search.Operation]:
        operations: list[base_search.Operation] = []
        promoted = self._record(request_id, metric, operations)
        # A trial that is gone can't be trained; it gets the worst result in the next rung at once.
        while promoted is not None and promoted in self._exited:
            promoted = self._record(promoted, base_search.WORST_METRIC, operations)
        if promoted is not None:
            length = self.rungs[self._rung_of[promoted]].length
            operations += base_search.train_and_validate(promoted, length)
        elif len(self._rung_of) - self._num_invalid < self.max_trials:
            operations += self._create_next()
        if self.rungs[0].num_results == self.max_trials:
            operations += self._close_out()
        return operations

    def _record(
        self, request_id: str, metric: float, operations: list[base_search.Operation]
    ) -> str | None:
        """Enters a result into the trial's rung and returns the trial that goes on, if any."""
        index = self._rung_of[request_id]
        rung = self.rungs[index]
        rung.outstanding.discard(request_id)
        if index == len(self.rungs) - 1:
            rung.insert(request_id, metric)
            operations += self._close(request_id)
            return None
        promoted = rung.choose_promotion(
            request_id, metric, lambda count: int(count / self.divisor)
        )
        if promoted in self._closed and promoted not in self._exited:
            # It was closed as a loser, before a trial among the best turned out to be invalid.
            return None
        if promoted is not None:
            self._rung_of[promoted] = index + 1
            self.rungs[index + 1].outstanding.add(promoted)
        return promoted

    def _close(self, request_id: str) -> list[base_search.Operation]:
        if request_id in self._closed:
            return []
        self._closed.add(request_id)
        return [base_search.Close(request_id)]

    def _close_out(self) -> list[base_search.Operation]:
        """Closes the trials that can't go on any more: all in rungs that no trial can enter."""
        operations: list[base_search.Operation] = []
        while self._num_closed_rungs < len(self.rungs):
            rung = self.rungs[self._num_closed_rungs]
            if rung.outstanding:
                break
            for request_id in rung.request_ids:
                if request_id not in rung.promoted:
                    operations += self._close(request_id)
            self._num_closed_rungs += 1
        return operations


class AshaStoppingSearch(_RungSearch):
    """ASHA by stopping: a trial goes on unless it is not among the best of its rung so far.

    No trial waits for others, which suits trials that are expensive to pause.
    """

    def __init__(
        self, space: space_lib.Space, random: np.random.RandomState, **sizes: Unpack[Sizes]
    ) -> None:
        """Lays out the rungs; the arguments are those of `AshaSearch`."""
        super().__init__(space, random, **sizes)
        self._num_created = 0
        self._num_ended = 0

    @override
    def on_validated(
        self, request_id: str, metric: float, length: int
    ) -> list[base_search.Operation]:
        while self._rung_of[request_id] < len(self.rungs):
            index = self._rung_of[request_id]
            rung = self.rungs[index]
            if length < rung.length:
                return base_search.train_and_validate(request_id, rung.length)
            self._rung_of[request_id] = index + 1
            is_good = rung.is_among_best(request_id, metric, self.divisor)
            if index == len(self.rungs) - 1 or not is_good:
                return [base_search.Close(request_id)]
            rung.promoted.add(request_id)
        return [base_search.Close(request_id)]

    @override
    def on_closed(self, request_id: str) -> list[base_search.Operation]:
        del request_id
        self._num_ended += 1
        return self._create_next()

    @override
    def on_exited_early(
        self, request_id: str, reason: base_search.ExitReason
    ) -> list[base_search.Operation]:
        if reason is base_search.ExitReason.INVALID_HP:
            self._num_created -= 1
            for rung in self.rungs:
                rung.remove(request_id)
        else:
            self._num_ended += 1
            index = self._rung_of[request_id]
            if index < len(self.rungs):
                self.rungs[index].insert(request_id, base_search.WORST_METRIC)
        return self._create_next()

    @override
    def extend(self, max_trials: int) -> list[base_search.Operation]:
        self.max_trials = max_trials
        num_at_work = self._num_created - self._num_ended
        return self._create_up_to(max(self._limit - num_at_work, 0))

    @override
    def left(self) -> float:
        return rungs.left_by_stopping(self.rungs, self.max_trials, self.divisor)

    @override
    def _create_next(self) -> list[base_search.Operation]:
        if self._num_created >= self.max_trials:
            return []
        self._num_created += 1
        create = self.create()
        self._rung_of[create.request_id] = 0
        self._order[create.request_id] = len(self._order)
        return [
            create,
            *base_search.train_and_validate(create.request_id, self.rungs[0].length),
        ]


def build_asha(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    stop_once: bool = False,
    **sizes: Unpack[Sizes],
) -> AshaSearch | AshaStoppingSearch:
    """Builds one bracket of ASHA.

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        stop_once: Whether trials are stopped in their rung instead of waiting to be promoted.
        **sizes: Its size.
    """
    return (AshaStoppingSearch if stop_once else AshaSearch)(space, random, **sizes)
