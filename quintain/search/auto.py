"""Choice of a search method by budget and parallelism.

The rules follow from `benchmarks/results/search_quality.md`.
"""

import functools
from collections.abc import Callable
from typing import Final

import numpy as np

from quintain.records.config import experiment_spec, searcher_config
from quintain.search import adaptive, asha, base_search, bayesian, random_search
from quintain.search import space as space_lib

LEAST_MODELLED: Final = 16
"""Trials from which on a model of them finds more than chance does."""

LEAST_ROUNDS: Final = {"tpe": 2, "gp": 8}
"""Least rounds of trials, each of which fills all slots, from which a model learns."""

MOST_TRIALS: Final = {"tpe": searcher_config.MAX_MODELLED_TRIALS, "gp": 200}
"""Trials for which a proposal takes no more than a fifth of a second."""

LEAST_LENGTH: Final = 16
"""Units of a training that can be stopped twice on its way."""

LEAST_FULL: Final = 24
"""Full trainings from which on a model finds more with them than early stopping does."""

LEAST_BRACKETS: Final = 8
"""Full trainings from which on brackets with later first rungs are worth their cost."""

_BUILDERS: Final[dict[str, Callable[..., base_search.SearchMethod]]] = {
    "random": random_search.RandomSearch,
    "tpe": bayesian.build_tpe,
    "gp": bayesian.build_gp,
    "async_halving": functools.partial(
        asha.build_asha, num_rungs=searcher_config.AsyncHalvingConfig.num_rungs
    ),
    "adaptive_asha": adaptive.build_adaptive_asha,
}


def choose(
    *, max_length: int, max_trials: int, budget: int, max_concurrent_trials: int
) -> tuple[str, int, str]:
    """Returns a method, its number of trials, and why; of the config's fields 0 is missing."""
    num_full = max(budget // max_length, 1) if budget else max_trials
    num_full = min(num_full, max_trials or num_full)
    is_short = bool(budget) and num_full != max_trials and num_full < LEAST_FULL
    if is_short and max_length >= LEAST_LENGTH:
        method = "async_halving" if num_full < LEAST_BRACKETS else "adaptive_asha"
        count = _count_asha(_BUILDERS[method], max_length, budget, max_trials or budget)
        why = f"{count} trials, most of them stopped early, for the cost of {num_full} full ones"
        return method, count, why
    if num_full < LEAST_MODELLED:
        return "random", num_full, f"{num_full} full trials are too few to learn from"
    many = f"{max_concurrent_trials} of {num_full} trials at once leave little to learn from"
    if max_concurrent_trials * LEAST_ROUNDS["tpe"] > num_full:
        return "random", num_full, many
    if max_concurrent_trials * LEAST_ROUNDS["gp"] > num_full:
        return "tpe", num_full, many
    if num_full <= MOST_TRIALS["gp"]:
        return "gp", num_full, f"{num_full} full trials are enough to learn from"
    if num_full <= MOST_TRIALS["tpe"]:
        return "tpe", num_full, f"{num_full} full trials are too many for a Gaussian process"
    return "random", num_full, f"{num_full} full trials are too many for a model"


def _count_asha(
    build: Callable[..., base_search.SearchMethod], max_length: int, budget: int, most: int
) -> int:
    """Returns as many trials as ASHA expects to train within a budget."""
    space, random = space_lib.Space.parse({}), np.random.RandomState(0)
    low, high = 1, min(most, searcher_config.MAX_MODELLED_TRIALS)
    while low < high:
        middle = (low + high + 1) // 2
        search = build(space, random, max_length=max_length, max_trials=middle)
        low, high = (middle, high) if search.left() <= budget else (low, middle - 1)
    return low


def build_auto(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    method: str,
    reason: str,
    budget: int,
    max_length: int,
    max_trials: int,
    max_concurrent_trials: int,
) -> base_search.SearchMethod:
    """Builds the method that the config names, or chooses one where none is named yet."""
    del reason
    sizes = {"max_length": max_length, "max_concurrent_trials": max_concurrent_trials}
    if not method:
        method, max_trials, _ = choose(max_trials=max_trials, budget=budget, **sizes)
    return _BUILDERS[method](space, random, max_trials=max_trials, **sizes)


def describe(searcher: searcher_config.SearcherConfig) -> str:
    """Returns what `auto` has chosen, and why; empty for other searches."""
    if not isinstance(searcher, searcher_config.AutoConfig) or not searcher.method:
        return ""
    return f"auto chose {searcher.method}: {searcher.reason}."


def settle(config: experiment_spec.ExperimentSpec) -> experiment_spec.ExperimentSpec:
    """Returns a config that says which method `auto` has chosen, and why."""
    given = config.searcher
    if not isinstance(given, searcher_config.AutoConfig) or given.method:
        return config
    method, max_trials, reason = choose(
        max_length=given.max_length,
        max_trials=given.max_trials,
        budget=given.budget,
        max_concurrent_trials=given.max_concurrent_trials,
    )
    chosen = {"method": method, "max_trials": max_trials, "reason": reason, "budget": 0}
    settled = config.replace(searcher=chosen)
    settled.lock()
    return settled
