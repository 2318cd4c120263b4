"""Replication: the finalists of a search are trained again with further seeds.

A single training is a lucky or an unlucky one. The finalists train from scratch with further seeds,
the same ones for all, seed by seed; whoever is clearly worse than the best is left out of the next
round.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from typing_extensions import override

from quintain import errors
from quintain.records.config import experiment_spec, searcher_config
from quintain.records.views import seeds as seeds_lib
from quintain.search import base_search, hyperparameters, known_trial, rungs

LEAST_TRIALS: Final = 16
"""Trials from which on a search replicates its finalists by default."""

_SHARE: Final = 3
"""One part of so many of a search's budget goes into further seeds by default, at most."""

_WITHOUT_FINALISTS: Final = (
    searcher_config.SingleConfig,
    searcher_config.PbtConfig,
    searcher_config.MultiObjectiveConfig,
)

_STREAM: Final = 0x5EED5
"""Tells the random numbers of further seeds from those of the search."""


Build = Callable[[searcher_config.SearcherConfig], base_search.SearchMethod]
"""Builds a fresh search method from its config."""


class ReplicatedSearch(base_search.SearchMethod):
    """Wraps a search method: once its trials have ended, the best of them are trained again.

    The name of a replicate is that of its original with `+1`, `+2`... Which one comes next follows
    from the results alone.
    """

    def __init__(
        self,
        method: base_search.SearchMethod,
        random: np.random.RandomState,
        config: searcher_config.SearcherConfig,
    ) -> None:
        """Stores the method.

        Args:
            method: Searches in the first stage.
            random: Source of the further seeds.
            config: The config of the whole search, with a section `replicate`.
        """
        super().__init__(method.space, method.random)
        replicate = config.replicate
        if replicate is None:
            raise errors.QuintainError("searcher.replicate: missing.")
        self.method = method
        self.max_length: int = getattr(config, "max_length", 0)
        self.replicate = replicate
        self.max_replicates = replicate.top * replicate.seeds
        if (max_trials := getattr(config, "max_trials", None)) is not None:
            self.max_trials: int = max_trials
        self._source = random
        self._seeds = [self._draw_seed() for _ in range(replicate.seeds)]
        self._limit: float = getattr(config, "max_concurrent_trials", 0) or math.inf
        self._is_constant = False
        self._created: dict[str, base_search.Create] = {}
        self._searching: set[str] = set()
        self._replicating: set[str] = set()
        self._replicates: set[str] = set()
        self._results: dict[str, float] = {}

    @override
    def bound_ready(self, most_ready: float) -> None:
        self.method.bound_ready(most_ready)

    @property
    @override
    def uses_results(self) -> bool:
        return self.method.uses_results

    @override
    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        self.method.learn(history)

    @property
    @override
    def num_further(self) -> int:
        return self.method.num_further

    @override
    def note_further(self, request_id: str, metrics: Sequence[float]) -> None:
        self.method.note_further(request_id, metrics)

    @override
    def list_brackets(self) -> list[Sequence[rungs.Rung]]:
        return self.method.list_brackets()

    @override
    def start(self) -> list[base_search.Operation]:
        operations = self._note(self.method.start())
        if not operations or not isinstance(operations[0], base_search.Create):
            return operations
        text = (
            f"Of this search, {describe(self.replicate)}. searcher.replicate says how many; "
            "'none' is off."
        )
        return [*operations, base_search.Note(operations[0].request_id, text)]

    @override
    def on_validated(
        self, request_id: str, metric: float, length: int
    ) -> list[base_search.Operation]:
        if length >= self.max_length:
            self._results[request_id] = metric
        if request_id in self._replicates:
            return [base_search.Close(request_id)]
        return self._note(self.method.on_validated(request_id, metric, length))

    @override
    def on_checkpointed(self, request_id: str) -> list[base_search.Operation]:
        return self._note(self.method.on_checkpointed(request_id))

    @override
    def on_closed(self, request_id: str) -> list[base_search.Operation]:
        self._forget_open(request_id)
        if request_id in self._replicates:
            return self._go_on()
        return self._note(self.method.on_closed(request_id)) + self._go_on()

    @override
    def on_exited_early(
        self, request_id: str, reason: base_search.ExitReason
    ) -> list[base_search.Operation]:
        self._forget_open(request_id)
        if request_id in self._replicates:
            if reason is not base_search.ExitReason.USER_CANCELED:
                self._results[request_id] = base_search.WORST_METRIC
            return self._go_on()
        if reason is not base_search.ExitReason.USER_CANCELED:
            self._results.pop(request_id, None)
        return self._note(self.method.on_exited_early(request_id, reason)) + self._go_on()

    @override
    def check_extension(self, max_trials: int) -> None:
        former = getattr(self, "max_trials", None)
        if former is not None and max_trials <= former:
            raise errors.StateError(
                f"max_trials: got {max_trials}, expected more than the present {former}."
            )
        first: int = getattr(self.method, "max_trials", 0)
        self.method.check_extension(first + max_trials - (former or 0))

    @override
    def extend(self, max_trials: int) -> list[base_search.Operation]:
        """Raises the number of trials; further seeds get the same share of them as before."""
        further = max_trials - self.max_trials
        first: int = getattr(self.method, "max_trials", 0)
        if not self._is_constant:
            self.max_replicates += further * self.max_replicates // self.max_trials
            further -= further * (self.max_trials - first) // self.max_trials
        self.max_trials = max_trials
        return self._note(self.method.extend(first + further)) + self._go_on()

    @property
    @override
    def can_reopen(self) -> bool:
        return self.method.can_reopen

    @override
    def reopen(self, request_id: str, length: int) -> list[base_search.Operation]:
        self.max_length = length
        self._results.pop(request_id, None)
        if request_id in self._replicates:
            self._replicating.add(request_id)
            return base_search.train_and_validate(request_id, length)
        self._searching.add(request_id)
        return self.method.reopen(request_id, length)

    @override
    def left(self) -> float:
        is_searching = not self._created or bool(self._searching)
        num_replicates = len(self._replicating - self._results.keys())
        if is_searching or self._replicating:
            num_replicates += max(self.max_replicates - len(self._replicates), 0)
        return (self.method.left() if is_searching else 0) + num_replicates * self.max_length

    def _draw_seed(self) -> int:
        return int(self._source.randint(0, base_search.MAX_SEED))

    def _note(self, operations: list[base_search.Operation]) -> list[base_search.Operation]:
        for operation in operations:
            if isinstance(operation, base_search.Create):
                self._created[operation.request_id] = operation
                self._searching.add(operation.request_id)
        return operations

    def _forget_open(self, request_id: str) -> None:
        self._searching.discard(request_id)
        self._replicating.discard(request_id)

    def _go_on(self) -> list[base_search.Operation]:
        """Returns the replicates to start now: those that are missing of the first open round."""
        if self._is_constant or self._searching:
            return []
        contenders = self._find_finalists()
        for number in range(1, self.replicate.seeds + 1):
            if len(contenders) < 2:
                return []
            missing = [name for name in contenders if _name(name, number) not in self._replicates]
            room = min(
                self._limit - len(self._replicating), self.max_replicates - len(self._replicates)
            )
            if missing and room > 0:
                return self._start(missing[: int(min(room, len(missing)))], number)
            if any(_name(name, number) in self._replicating for name in contenders):
                return []
            if number == 1 and self._has_no_noise(contenders):
                return self._give_back(contenders[0])
            results = {
                name: row
                for name in contenders
                if (row := self._find_results(name, number)) is not None
            }
            contenders = seeds_lib.find_contenders(results)
        return []

    def _find_finalists(self) -> list[str]:
        """Returns the trials that were trained to the end and were the best, the best first."""
        order = {
            name: (metric, place)
            for place, name in enumerate(self._created)
            if math.isfinite(metric := self._results.get(name, math.inf))
        }
        return heapq.nsmallest(self.replicate.top, order, key=order.__getitem__)

    def _find_results(self, name: str, num_rounds: int) -> list[float] | None:
        """Returns the results of a trial and its replicates, or None if one has none."""
        names = [name, *(_name(name, number) for number in range(1, num_rounds + 1))]
        found = [self._results[each] for each in names if each in self._results]
        return found if len(found) == len(names) else None

    def _start(self, names: Sequence[str], number: int) -> list[base_search.Operation]:
        operations: list[base_search.Operation] = []
        for name in names:
            seed = self._seeds[number - 1] if self.replicate.paired else self._draw_seed()
            create = base_search.Create(_name(name, number), self._created[name].hparams, seed)
            self._replicating.add(create.request_id)
            self._replicates.add(create.request_id)
            operations += [
                create,
                *base_search.train_and_validate(create.request_id, self.max_length),
            ]
        return operations

    def _has_no_noise(self, names: Sequence[str]) -> bool:
        found = [row for name in names if (row := self._find_results(name, 1)) is not None]
        return bool(found) and all(first == second for first, second in found)

    def _give_back(self, name: str) -> list[base_search.Operation]:
        """Ends the replication, whose seeds change nothing, and searches with what it leaves."""
        self._is_constant = True
        text = (
            "Further seeds gave the same metrics to the last bit, so that no more are tried. If "
            "training is meant to have random numbers, let it take them from the trial's seed."
        )
        operations: list[base_search.Operation] = [base_search.Note(name, text)]
        unused = self.max_replicates - len(self._replicates)
        self.max_replicates = len(self._replicates)
        first: int = getattr(self.method, "max_trials", 0)
        total: int = getattr(self, "max_trials", 0)
        share = (total - first) * unused // (unused + len(self._replicates))
        if share <= 0:
            return operations
        self.method.check_extension(first + share)
        return operations + self._note(self.method.extend(first + share))


def _name(original: str, number: int) -> str:
    return f"{original}{seeds_lib.REPLICATE}{number}"


def describe(replicate: searcher_config.ReplicateConfig) -> str:
    """Returns what a search replicates, as words."""
    further = "1 further seed" if replicate.seeds == 1 else f"{replicate.seeds} further seeds"
    return (
        f"up to {replicate.top * replicate.seeds} trainings repeat the {replicate.top} best trials "
        f"with {further}"
    )


def build(
    config: searcher_config.SearcherConfig, build_method: Build, seeds: Sequence[int]
) -> ReplicatedSearch:
    """Builds the search of a config that replicates its finalists, within the config's budget.

    Args:
        config: The config, with a section `replicate`.
        build_method: Builds the method that is wrapped.
        seeds: `reproducibility.experiment_seed`, and what else tells the search from others.

    Raises:
        ConfigError: If the method has no finalists, or the further seeds leave it too little.
    """
    replicate = config.replicate
    if replicate is None or isinstance(config, _WITHOUT_FINALISTS):
        raise _refuse(f"the search method {config.name!r} has no finalists to train again")
    random = np.random.RandomState([seeds[0], _STREAM, *seeds[1:]])
    method = build_method(config)
    length: int = config.as_dict()["max_length"]
    for name in ("max_trials", "budget"):
        if total := getattr(config, name, 0):
            cost = replicate.top * replicate.seeds * length
            first = total - math.ceil(total * cost / method.left())
            least = replicate.top if name == "max_trials" else length + 1
            if first < least:
                raise _refuse(
                    f"{describe(replicate)}, which is too much of {name}={total}; lower top or "
                    f"seeds, raise {name}, or leave it out"
                )
            method = build_method(config.replace(**{name: first}))
    return ReplicatedSearch(method, random, config)


def _refuse(why: str) -> errors.ConfigError:
    message = f"{why}. `replicate: none` is off."
    return errors.ConfigError.from_problems([errors.Problem("searcher.replicate", message)])


def settle(
    config: experiment_spec.ExperimentSpec, own: searcher_config.SearcherConfig, build_method: Build
) -> experiment_spec.ExperimentSpec:
    """Returns a config that says whether finalists are replicated.

    Where nobody said it, they are in searches of at least 16 trials, if a third of the budget is
    enough for two finalists with two further seeds each.

    Args:
        config: The config.
        own: Its section `searcher`, without the trials that the search shares with another one.
        build_method: Builds the method that is wrapped.
    """
    if config.searcher.replicate is not None:
        return config
    top = 0
    is_large = getattr(own, "max_trials", 0) >= LEAST_TRIALS or getattr(own, "budget", 0) > 0
    if is_large and not isinstance(own, _WITHOUT_FINALISTS):
        method = build_method(own)
        dimensions = method.space.dimensions
        is_varied = any(
            not isinstance(each.hyperparameter, hyperparameters.Const) for each in dimensions
        )
        chosen = searcher_config.ReplicateConfig()
        cost = chosen.seeds * own.as_dict()["max_length"]
        top = min(chosen.top, int(method.left() / _SHARE / cost)) if is_varied else 0
    settled = config.replace(searcher={"replicate": {"top": top if top > 1 else 0}})
    settled.lock()
    return settled
