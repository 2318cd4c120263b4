"""Adaptive search: several brackets of successive halving side by side."""

import math
from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from quintain.search import asha, base_search, halving, known_trial, rungs
from quintain.search import space as space_lib


class Tournament(base_search.SearchMethod):
    """Runs several searches at once; each sees its own trials only."""

    def __init__(
        self,
        space: space_lib.Space,
        random: np.random.RandomState,
        searches: Sequence[base_search.SearchMethod],
        weights: Sequence[int],
    ) -> None:
        super().__init__(space, random)
        self.searches = tuple(searches)
        self.weights = tuple(weights)
        self._owner: dict[str, base_search.SearchMethod] = {}

    @override
    def bound_ready(self, most_ready: float) -> None:
        super().bound_ready(most_ready)
        for search in self.searches:
            search.bound_ready(most_ready)

    @override
    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        for search in self.searches:
            search.learn(history)

    @override
    def start(self) -> list[base_search.Operation]:
        return [
            operation for search in self.searches for operation in self._own(search, search.start())
        ]

    @override
    def on_validated(
        self, request_id: str, metric: float, length: int
    ) -> list[base_search.Operation]:
        search = self._owner[request_id]
        return self._own(search, search.on_validated(request_id, metric, length))

    @override
    def on_checkpointed(self, request_id: str) -> list[base_search.Operation]:
        search = self._owner[request_id]
        return self._own(search, search.on_checkpointed(request_id))

    @override
    def on_closed(self, request_id: str) -> list[base_search.Operation]:
        search = self._owner[request_id]
        return self._own(search, search.on_closed(request_id))

    @override
    def on_exited_early(
        self, request_id: str, reason: base_search.ExitReason
    ) -> list[base_search.Operation]:
        search = self._owner[request_id]
        return self._own(search, search.on_exited_early(request_id, reason))

    @property
    def max_trials(self) -> int:
        """Trials of all searches."""
        return sum(self.weights)

    @override
    def check_extension(self, max_trials: int) -> None:
        super().check_extension(max_trials)
        first = self.searches[0]
        first.check_extension(self.weights[0] + max_trials - self.max_trials)

    @override
    def extend(self, max_trials: int) -> list[base_search.Operation]:
        """Gives the further trials to the first search, the one with the most rungs."""
        first = self.searches[0]
        share = self.weights[0] + max_trials - self.max_trials
        self.weights = (share, *self.weights[1:])
        return self._own(first, first.extend(share))

    @override
    def list_brackets(self) -> list[Sequence[rungs.Rung]]:
        return [bracket for search in self.searches for bracket in search.list_brackets()]

    @override
    def left(self) -> float:
        return sum(search.left() for search in self.searches)

    def _own(
        self, search: base_search.SearchMethod, operations: list[base_search.Operation]
    ) -> list[base_search.Operation]:
        for operation in operations:
            if isinstance(operation, base_search.Create):
                self._owner[operation.request_id] = search
        return operations


def build_adaptive(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    max_length: int,
    budget: int,
    mode: str = "standard",
    divisor: float = 4.0,
    max_rungs: int = 5,
    bracket_rungs: Sequence[int] = (),
    train_stragglers: bool = True,
) -> Tournament:
    """Builds an adaptive search with a budget, shared out evenly over the brackets.

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        max_length: Units of training of the best trials.
        budget: Units of training in all.
        mode: See `halving.choose_brackets`.
        divisor: One trial of so many goes on.
        max_rungs: Rungs of the largest bracket.
        bracket_rungs: Rungs of each bracket, instead of those of `mode`.
        train_stragglers: Without effect.
    """
    del train_stragglers
    brackets = list(bracket_rungs) or halving.choose_brackets(mode, max_rungs)
    plans = [
        halving.plan_by_budget(max_length, budget // len(brackets), divisor, num_rungs)
        for num_rungs in brackets
    ]
    searches = [halving.HalvingSearch(space, random, plan) for plan in plans]
    return Tournament(space, random, searches, [1] * len(searches))


def build_adaptive_simple(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    max_length: int,
    max_trials: int,
    mode: str = "standard",
    divisor: float = 4.0,
    max_rungs: int = 5,
) -> Tournament:
    """Builds an adaptive search with a number of trials, shared out evenly over the brackets.

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        max_length: Units of training of the best trials.
        max_trials: Trials in all.
        mode: See `halving.choose_brackets`.
        divisor: One trial of so many goes on.
        max_rungs: Rungs of the largest bracket.
    """
    brackets = halving.choose_brackets(mode, max_rungs)
    shares = halving.split_evenly(max_trials, len(brackets))
    used = [(rungs, share) for rungs, share in zip(brackets, shares, strict=True) if share]
    searches = [
        halving.HalvingSearch(
            space, random, halving.plan_by_trials(max_length, share, divisor, rungs)
        )
        for rungs, share in used
    ]
    return Tournament(space, random, searches, [share for _, share in used])


def share_trials(max_trials: int, divisor: float, brackets: Sequence[int]) -> list[int]:
    """Returns the trials of each bracket of an adaptive ASHA search.

    A bracket of `r` rungs has the weight `divisor ** (r - 1) / r`, so that each gets about the same
    amount of training; what is left over goes to the first.

    Example:
        >>> share_trials(20, 3, [3, 2, 1])
        [12, 5, 3]
    """
    weights = [divisor ** (rungs - 1) / rungs for rungs in brackets]
    shares = [max(int(weight / sum(weights) * max_trials), 1) for weight in weights]
    shares[0] += max(max_trials - sum(shares), 0)
    return shares


def share_concurrency(max_concurrent: int, divisor: float, shares: Sequence[int]) -> list[int]:
    """Returns the trials at work of each bracket; none is without one.

    Example:
        >>> share_concurrency(11, 3, [9, 3, 1])
        [4, 4, 3]
    """
    if max_concurrent == 0:
        return [max(shares[-1], int(divisor))] * len(shares)
    return [max(part, 1) for part in halving.split_evenly(max_concurrent, len(shares))]


def build_adaptive_asha(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    max_length: int,
    max_trials: int,
    mode: str = "standard",
    divisor: float = 4.0,
    max_rungs: int = 5,
    max_concurrent_trials: int = 0,
    bracket_rungs: Sequence[int] = (),
    stop_once: bool = False,
) -> Tournament:
    """Builds an adaptive search of ASHA brackets.

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        max_length: Units of training of the best trials.
        max_trials: Trials in all.
        mode: See `halving.choose_brackets`.
        divisor: One trial of so many goes on.
        max_rungs: Rungs of the largest bracket, if length and trials allow so many.
        max_concurrent_trials: Trials at work in all; 0 for as many as the smallest bracket has.
        bracket_rungs: Rungs of each bracket, instead of those of `mode`.
        stop_once: Whether brackets stop trials instead of promoting them.
    """
    limit = min(max_rungs, _whole_log(max_length, divisor) + 1, _whole_log(max_trials, divisor) + 1)
    brackets = list(bracket_rungs) or halving.choose_brackets(mode, limit)
    brackets = sorted(brackets, reverse=True)[:max_trials]
    shares = share_trials(max_trials, divisor, brackets)
    concurrency = share_concurrency(max_concurrent_trials, divisor, shares)
    searches = [
        asha.build_asha(
            space,
            random,
            stop_once=stop_once,
            num_rungs=num_rungs,
            max_length=max_length,
            max_trials=share,
            divisor=divisor,
            max_concurrent_trials=concurrent,
        )
        for num_rungs, share, concurrent in zip(brackets, shares, concurrency, strict=True)
    ]
    return Tournament(space, random, searches, shares)


def _whole_log(number: int, base: float) -> int:
    """Returns the largest whole `n` with `base ** n <= number`."""
    exponent = int(math.log(number) / math.log(base))
    return exponent + 1 if base ** (exponent + 1) <= number else exponent
