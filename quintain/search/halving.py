"""Successive halving with a budget: the number of trials in each rung is fixed from the start.

Source:
    Jamieson and Talwalkar, 2016 (https://arxiv.org/abs/1502.07943).
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
from typing_extensions import override

from quintain import errors
from quintain.search import base_search, known_trial, rungs
from quintain.search import space as space_lib

MAX_TRIALS: Final = 1_000_000
"""Most trials that a budget may be spent on."""


@dataclasses.dataclass(frozen=True)
class RungPlan:
    """One rung: how many trials reach it, and how long they are trained."""

    length: int
    """Units of training, counted from the start of the trial."""

    num_trials: int
    """Trials that are trained so long."""


def plan_lengths(max_length: int, divisor: float, num_rungs: int) -> list[int]:
    """Returns the lengths of rungs, strictly rising."""
    lengths: list[int] = []
    for length in base_search.rung_lengths(max_length, divisor, num_rungs):
        lengths.append(max(length, lengths[-1] + 1) if lengths else length)
    return lengths


def plan_by_budget(max_length: int, budget: int, divisor: float, num_rungs: int) -> list[RungPlan]:
    """Plans rungs whose training adds up to a budget.

    Example:
        >>> [(rung.length, rung.num_trials) for rung in plan_by_budget(800, 480, 4, 4)]
        [(12, 11), (50, 2), (200, 1), (800, 1)]
    """
    lengths = plan_lengths(max_length, divisor, num_rungs)
    counts = [max(int(divisor ** (num_rungs - index - 1)), 1) for index in range(num_rungs)]
    steps = [length - former for length, former in zip(lengths, [0, *lengths[:-1]], strict=True)]
    expected = sum(count * step for count, step in zip(counts, steps, strict=True))
    plan: list[RungPlan] = []
    for length, count in zip(lengths, counts, strict=True):
        limit = plan[-1].num_trials if plan else None
        scaled = max(int(budget / expected * count), 1)
        plan.append(RungPlan(length, scaled if limit is None else min(scaled, limit)))
    return plan


def plan_by_trials(
    max_length: int, max_trials: int, divisor: float, num_rungs: int
) -> list[RungPlan]:
    """Plans rungs for a number of trials.

    Example:
        >>> [(rung.length, rung.num_trials) for rung in plan_by_trials(100, 6, 4, 5)]
        [(1, 6), (2, 1), (6, 1), (25, 1), (100, 1)]
    """
    return [
        RungPlan(length, max(int(max_trials / divisor**index), 1))
        for index, length in enumerate(plan_lengths(max_length, divisor, num_rungs))
    ]


class HalvingSearch(base_search.SearchMethod):
    """Trains all trials of a rung, and the best of them further.

    A trial goes on as soon as it is sure to be among the best, whatever the others will give; the
    losers of a rung are closed when all of its trials have their results.
    """

    def __init__(
        self, space: space_lib.Space, random: np.random.RandomState, plan: Sequence[RungPlan]
    ) -> None:
        super().__init__(space, random)
        if plan[0].num_trials > MAX_TRIALS:
            message = (
                f"is enough for {plan[0].num_trials:,} trials, expected at most {MAX_TRIALS:,}; "
                "lower it."
            )
            raise errors.ConfigError.from_problems([errors.Problem("searcher.budget", message)])
        self.plan = tuple(plan)
        self.rungs = [rungs.Rung(rung.length) for rung in plan]
        self._rung_of: dict[str, int] = {}
        self._order: dict[str, int] = {}
        for rung in self.rungs:
            rung.order = self._order
        self._exited: set[str] = set()
        self._known: dict[str, dict[int, float]] = {}

    @override
    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        """Lets earlier trials compete for the places of later rungs, which stay as many.

        One that wins a place for which it was not trained long enough is the worst there.
        """
        lengths = [rung.length for rung in self.plan]
        placed = {trial.name: trial.place(lengths) for trial in history}
        self._known = {name: metrics for name, metrics in placed.items() if 0 in metrics}
        first = self.plan[0]
        grown = dataclasses.replace(first, num_trials=first.num_trials + len(self._known))
        self.plan = (grown, *self.plan[1:])
        for name, metrics in self._known.items():
            self._exited.add(name)
            self._rung_of[name] = 0
            self._order[name] = len(self._order)
            self._record(name, metrics[0])

    @override
    def start(self) -> list[base_search.Operation]:
        count = int(min(self.plan[0].num_trials - len(self._known), self.most_ready))
        return [operation for _ in range(count) for operation in self._create_next()]

    def _create_next(self) -> list[base_search.Operation]:
        """Starts a trial, if there may be another one."""
        if len(self._order) == self.plan[0].num_trials:
            return []
        create = self.create()
        self._rung_of[create.request_id] = 0
        self._order[create.request_id] = len(self._order)
        self.rungs[0].outstanding.add(create.request_id)
        length = self.plan[0].length
        return [create, *base_search.train_and_validate(create.request_id, length)]

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
        del reason
        self._exited.add(request_id)
        if request_id not in self.rungs[self._rung_of[request_id]].outstanding:
            return []
        return self._on_result(request_id, base_search.WORST_METRIC)

    @override
    def list_brackets(self) -> list[Sequence[rungs.Rung]]:
        return [self.rungs]

    @override
    def left(self) -> float:
        return sum(
            (plan.num_trials - len(rung.metrics)) * self._rung_cost(index)
            for index, (plan, rung) in enumerate(zip(self.plan, self.rungs, strict=True))
        )

    def _rung_cost(self, index: int) -> int:
        former = self.plan[index - 1].length if index else 0
        return self.plan[index].length - former

    def _on_result(self, request_id: str, metric: float) -> list[base_search.Operation]:
        created = [] if self._rung_of[request_id] else self._create_next()
        return created + self._record(request_id, metric)

    def _record(self, request_id: str, metric: float) -> list[base_search.Operation]:
        """Enters a result and returns what follows for trials that there are."""
        index = self._rung_of[request_id]
        rung, plan = self.rungs[index], self.plan[index]
        rung.outstanding.discard(request_id)
        operations: list[base_search.Operation] = []
        if index == len(self.rungs) - 1:
            rung.insert(request_id, metric)
            return self._close(request_id)

        num_next = self.plan[index + 1].num_trials
        promoted = rung.choose_promotion(
            request_id, metric, lambda count: max(count + num_next - plan.num_trials, 0)
        )
        if len(rung.metrics) == plan.num_trials:
            for loser in rung.request_ids:
                if loser not in rung.promoted:
                    operations += self._close(loser)
        if promoted is None:
            return operations
        self._rung_of[promoted] = index + 1
        self.rungs[index + 1].outstanding.add(promoted)
        if promoted in self._exited:
            known = self._known.get(promoted, {})
            metric = known.get(index + 1, base_search.WORST_METRIC)
            return operations + self._record(promoted, metric)
        return operations + base_search.train_and_validate(promoted, self.plan[index + 1].length)

    def _close(self, request_id: str) -> list[base_search.Operation]:
        return [] if request_id in self._exited else [base_search.Close(request_id)]


def build_halving(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    num_rungs: int,
    max_length: int,
    budget: int,
    divisor: float,
    train_stragglers: bool = True,
) -> HalvingSearch:
    """Builds a search of one bracket.

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        num_rungs: Rungs.
        max_length: Units of training of the best trials.
        budget: Units of training in all.
        divisor: One trial of so many goes on.
        train_stragglers: Without effect.
    """
    del train_stragglers
    return HalvingSearch(space, random, plan_by_budget(max_length, budget, divisor, num_rungs))


def choose_brackets(mode: str, max_rungs: int) -> list[int]:
    """Returns the numbers of rungs of an adaptive search's brackets, largest first.

    Args:
        mode: `aggressive` for the largest bracket alone, `standard` for the larger half of them,
            `conservative` for all.
        max_rungs: Rungs of the largest bracket.

    Raises:
        ConfigError: If there is no such mode.
    """
    smallest = {"aggressive": max_rungs, "standard": (max_rungs - 1) // 2 + 1, "conservative": 1}
    if mode not in smallest:
        raise errors.ConfigError(
            f"searcher.mode: got {errors.show(mode)}, expected one of "
            f"{', '.join(map(repr, smallest))}."
            f"{errors.suggest(mode, smallest)}"
        )
    return list(range(max_rungs, smallest[mode] - 1, -1))


def split_evenly(total: int, num_parts: int) -> list[int]:
    """Returns whole parts of a total, as equal as possible, the larger ones first."""
    part, rest = divmod(total, num_parts)
    return [part + (index < rest) for index in range(num_parts)]
