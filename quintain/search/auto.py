"""Choice of a search method by budget, parallelism and space.

`benchmarks/results/search_quality.md` has the measurements that the rules follow from.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from quintain.records.config import experiment_spec, searcher_config
from quintain.search import adaptive, base_search, bayesian, hyperparameters, random_search
from quintain.search import space as space_lib

LEAST_MODELLED: Final = 16
"""Trials from which on a model of them finds more than chance does."""

MOST_PROCESS_TRIALS: Final = 200
"""Trials up to which a Gaussian process takes less than a fifth of a second for each."""

LEAST_ROUNDS: Final = 4
"""How often all slots are filled, so that a model has results to learn from."""

LEAST_LENGTH: Final = 16
"""Units of a training that can be stopped twice on its way."""

_BUILDERS: Final[dict[str, Callable[..., base_search.SearchMethod]]] = {
    "random": random_search.RandomSearch,
    "tpe": bayesian.build_tpe,
    "gp": bayesian.build_gp,
    "adaptive_asha": adaptive.build_adaptive_asha,
}


@dataclasses.dataclass(frozen=True)
class Choice:
    """A search method, and why it was chosen."""

    method: str
    max_trials: int
    reason: str


def choose(
    space: space_lib.Space,
    *,
    max_length: int,
    max_trials: int = 0,
    budget: int = 0,
    max_concurrent_trials: int = 0,
) -> Choice:
    """Returns the method for a search.

    Args:
        space: The hyperparameters.
        max_length: Units of training of the best trials.
        max_trials: Trials at most; 0 for as many as the budget pays.
        budget: Units of training in all; 0 for all trials to the end.
        max_concurrent_trials: Trials at once; 0 leaves it to the method.
    """
    num_full = max(budget // max_length, 1) if budget else max_trials
    num_full = min(num_full, max_trials or num_full)
    if budget and num_full != max_trials and max_length >= LEAST_LENGTH:
        count = _count_asha(space, max_length, budget, max_trials or budget)
        return Choice(
            "adaptive_asha",
            count,
            f"{count} trials, most of them stopped early, for the cost of {num_full} full ones",
        )
    dimensions = space.dimensions
    size = sum(not isinstance(one.hyperparameter, hyperparameters.Const) for one in dimensions)
    if num_full < LEAST_MODELLED:
        return Choice("random", num_full, f"{num_full} trials are too few to learn from")
    if max_concurrent_trials * LEAST_ROUNDS > num_full:
        why = f"{max_concurrent_trials} of {num_full} trials at once leave little to learn from"
        return Choice("random", num_full, why)
    if num_full <= MOST_PROCESS_TRIALS:
        return Choice("gp", num_full, f"{num_full} full trials of {size} hyperparameters")
    if num_full <= searcher_config.MAX_MODELLED_TRIALS:
        why = f"{num_full} trials are more than a Gaussian process is quick with"
        return Choice("tpe", num_full, why)
    return Choice("random", num_full, f"{num_full} trials are too many for a model")


def _count_asha(space: space_lib.Space, max_length: int, budget: int, most: int) -> int:
    """Returns as many trials as ASHA expects to train within a budget."""
    low, high = 1, min(most, searcher_config.MAX_MODELLED_TRIALS)
    while low < high:
        middle = (low + high + 1) // 2
        search = adaptive.build_adaptive_asha(
            space, np.random.RandomState(0), max_length=max_length, max_trials=middle
        )
        low, high = (middle, high) if search.left() <= budget else (low, middle - 1)
    return low


def build_auto(
    space: space_lib.Space,
    random: np.random.RandomState,
    *,
    max_length: int,
    max_trials: int = 0,
    budget: int = 0,
    max_concurrent_trials: int = 0,
    method: str = "",
    reason: str = "",
) -> base_search.SearchMethod:
    """Builds the method that was chosen when the experiment was created, or chooses one now.

    Args:
        space: The hyperparameters.
        random: Source of all random numbers.
        max_length: Units of training of the best trials.
        max_trials: Trials in all.
        budget: Units of training in all, for the choice.
        max_concurrent_trials: Trials at once; 0 leaves it to the method.
        method: The chosen method, or empty.
        reason: Without effect.
    """
    del reason
    sizes = {"max_length": max_length, "max_concurrent_trials": max_concurrent_trials}
    if not method:
        choice = choose(space, max_trials=max_trials, budget=budget, **sizes)
        method, max_trials = choice.method, choice.max_trials
    return _BUILDERS[method](space, random, max_trials=max_trials, **sizes)


def describe(searcher: searcher_config.SearcherConfig) -> str:
    """Returns what `auto` has chosen, and why; empty for other searches."""
    if not isinstance(searcher, searcher_config.AutoConfig) or not searcher.method:
        return ""
    return f"auto chose {searcher.method}: {searcher.reason}."


def settle(config: experiment_spec.ExperimentSpec) -> experiment_spec.ExperimentSpec:
    """Returns a config that says which method `auto` has chosen, and why.

    Raises:
        ConfigError: If the hyperparameters are malformed.
    """
    searcher = config.searcher
    if not isinstance(searcher, searcher_config.AutoConfig) or searcher.method:
        return config
    choice = choose(
        space_lib.Space.parse(config.hyperparameters),
        max_length=searcher.max_length,
        max_trials=searcher.max_trials,
        budget=searcher.budget,
        max_concurrent_trials=searcher.max_concurrent_trials,
    )
    settled = config.replace(searcher={**vars(choice), "budget": 0})
    settled.lock()
    return settled
