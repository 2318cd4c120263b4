"""Configs of the search methods, chosen by `searcher.name`.

Each of them names the code of its method, which it does not import: reading a config needs none of
it. To add one, write its class here, and what it names in `quintain/search/`.
"""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

from annotated_types import Ge, Gt, Le, Len

from quintain import errors
from quintain.config import base_config
from quintain.records.config import searcher_base
from quintain.records.config.searcher_base import SEARCHERS, Length, SearcherConfig, Trials

Rungs = Annotated[int, Gt(0), Le(50)]
Divisor = Annotated[float, Gt(1), Le(10**6)]
Mode = Literal["aggressive", "standard", "conservative"]
Share = Annotated[float, Ge(0), Le(1)]

MAX_BUDGET_STEPS: Final = 50_000
MAX_SIMPLE_TRIALS: Final = 2_000
MAX_POPULATION: Final = 10_000
"""Trials that are created at once; the master does nothing else meanwhile."""

MAX_MODELLED_TRIALS: Final = 10_000
"""Trials that a model of all of them may propose: the time for each grows with their number."""


@searcher_base.searcher("single", "random_search:build_single")
@dataclasses.dataclass
class SingleConfig(SearcherConfig):
    """One trial."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length",)

    max_length: Length = 0
    """Length to train the trial for."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields points for which there is no trial."""
        yield from super().check()
        if len(self.initial_points) > 1:
            yield "initial_points", f"got {len(self.initial_points)}, expected at most one."


@searcher_base.searcher("random", "random_search:RandomSearch")
@dataclasses.dataclass
class RandomConfig(SearcherConfig):
    """Trials with hyperparameters drawn at random."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "max_trials")

    max_length: Length = 0
    """Length to train each trial for."""

    max_trials: Trials = 0
    """Trials in all."""

    max_concurrent_trials: Trials = 0
    """Trials at once; 0 for all."""


@searcher_base.searcher("grid", "random_search:GridSearch")
@dataclasses.dataclass
class GridConfig(SearcherConfig):
    """One trial for each point of a grid."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length",)

    max_length: Length = 0
    """Length to train each trial for."""

    max_concurrent_trials: Trials = 0
    """Trials at once; 0 for all."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields points, which a grid has of its own."""
        yield from super().check()
        if self.initial_points:
            yield "initial_points", "got points, but a grid tries all of its own; leave them out."


@dataclasses.dataclass
class _BracketConfig(SearcherConfig):
    """Fields of all adaptive searches."""

    mode: Mode = "standard"
    """How bold it is: `aggressive` stops most trials early, `conservative` few."""

    divisor: Divisor = 4.0
    """One trial of so many goes on."""

    max_rungs: Rungs = 5
    """Rungs of the largest bracket."""


@searcher_base.searcher("adaptive", "adaptive:build_adaptive")
@dataclasses.dataclass
class AdaptiveConfig(_BracketConfig):
    """Brackets of successive halving with a budget."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "budget")

    max_length: Length = 0
    """Length to train the best trials for."""

    budget: Length = 0
    """Training in all, over all trials."""

    bracket_rungs: Annotated[list[Rungs], Len(0, 100)] = dataclasses.field(default_factory=list)
    """Rungs of each bracket, instead of those of `mode`."""

    train_stragglers: bool = True
    """Kept for old configs; a rung always waits for all of its trials."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields that do not fit together."""
        yield from super().check()
        if self.budget and self.budget <= self.max_length:
            yield "budget", f"got {self.budget}, expected more than max_length={self.max_length}."
        if self.budget > MAX_BUDGET_STEPS and self.batches_per_unit > 1:
            yield "budget", f"got {self.budget:,} steps, expected at most {MAX_BUDGET_STEPS:,}."


@searcher_base.searcher("adaptive_simple", "adaptive:build_adaptive_simple")
@dataclasses.dataclass
class AdaptiveSimpleConfig(_BracketConfig):
    """Brackets of successive halving with a number of trials."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "max_trials")

    max_length: Length = 0
    """Length to train the best trials for."""

    max_trials: Annotated[int, Ge(0), Le(MAX_SIMPLE_TRIALS)] = 0
    """Trials in all."""


@searcher_base.searcher("sync_halving", "halving:build_halving")
@dataclasses.dataclass
class SyncHalvingConfig(SearcherConfig):
    """One bracket of successive halving with a budget."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "budget")

    num_rungs: Rungs = 3
    """Rungs."""

    max_length: Length = 0
    """Length to train the best trials for."""

    budget: Length = 0
    """Training in all, over all trials."""

    divisor: Divisor = 4.0
    """One trial of so many goes on."""

    train_stragglers: bool = True
    """Kept for old configs; a rung always waits for all of its trials."""


@searcher_base.searcher("async_halving", "asha:build_asha")
@dataclasses.dataclass
class AsyncHalvingConfig(SearcherConfig):
    """One bracket of ASHA."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "max_trials")

    num_rungs: Rungs = 3
    """Rungs."""

    max_length: Length = 0
    """Length to train the best trials for."""

    max_trials: Trials = 0
    """Trials in all."""

    divisor: Divisor = 4.0
    """One trial of so many goes on."""

    max_concurrent_trials: Trials = 0
    """Trials at work; 0 for as many as give one in the last rung."""

    stop_once: bool = False
    """Whether trials are stopped in their rung instead of waiting to be promoted."""


@searcher_base.searcher("adaptive_asha", "adaptive:build_adaptive_asha")
@dataclasses.dataclass
class AdaptiveAshaConfig(_BracketConfig):
    """Brackets of ASHA."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "max_trials")

    max_length: Length = 0
    """Length to train the best trials for."""

    max_trials: Trials = 0
    """Trials in all."""

    max_concurrent_trials: Trials = 0
    """Trials at work; 0 for as many as the smallest bracket has."""

    bracket_rungs: Annotated[list[Rungs], Len(0, 100)] = dataclasses.field(default_factory=list)
    """Rungs of each bracket, instead of those of `mode`."""

    stop_once: bool = False
    """Whether trials are stopped in their rung instead of waiting to be promoted."""


@dataclasses.dataclass
class ReplaceFunctionConfig(base_config.Config):
    """Replacement of the worst trials of a population."""

    truncate_fraction: Annotated[float, Ge(0), Le(0.5)] = 0.2
    """Part of the population that is replaced after each round."""


@dataclasses.dataclass
class ExploreFunctionConfig(base_config.Config):
    """Exploration: the difference of copies from their parents."""

    resample_probability: Share = 0.2
    """Probability that a hyperparameter is drawn anew."""

    perturb_factor: Share = 0.2
    """Change of the other hyperparameters, as a fraction of their value."""


@searcher_base.searcher("pbt", "pbt:PbtSearch")
@dataclasses.dataclass
class PbtConfig(SearcherConfig):
    """Population-based training."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("population_size", "num_rounds", "length_per_round")

    population_size: Annotated[int, Ge(0), Le(MAX_POPULATION)] = 0
    """Trials at a time."""

    num_rounds: Trials = 0
    """Rounds."""

    length_per_round: Length = 0
    """Length of a round."""

    replace_function: ReplaceFunctionConfig = dataclasses.field(
        default_factory=ReplaceFunctionConfig
    )
    """Which trials are replaced."""

    explore_function: ExploreFunctionConfig = dataclasses.field(
        default_factory=ExploreFunctionConfig
    )
    """How copies differ."""


@searcher_base.searcher("tpe", "bayesian:build_tpe")
@dataclasses.dataclass
class TpeConfig(RandomConfig):
    """Bayesian search by a tree of Parzen estimators."""

    max_trials: Annotated[int, Ge(0), Le(MAX_MODELLED_TRIALS)] = 0
    """Trials in all."""

    num_startup_trials: Trials = 10
    """Trials drawn at random before the estimators are used."""

    num_rungs: Rungs = 1
    """Rungs of ASHA stopping; 1 trains every trial to the end."""

    divisor: Divisor = 4.0
    """One trial of so many goes on, where there are rungs."""


@dataclasses.dataclass
class ObjectiveConfig(base_config.Config):
    """One more metric that decides."""

    metric: str = ""
    """Validation metric."""

    smaller_is_better: bool = True
    """Whether smaller values of the metric are better."""


@searcher_base.searcher("multi_objective", "bayesian:build_multi_objective")
@dataclasses.dataclass
class MultiObjectiveConfig(RandomConfig):
    """Bayesian or evolutionary search for the Pareto front of several metrics."""

    max_trials: Annotated[int, Ge(0), Le(MAX_MODELLED_TRIALS)] = 0
    """Trials in all."""

    further_objectives: list[ObjectiveConfig] = dataclasses.field(default_factory=list)
    """What decides besides `metric`."""

    sampler: Literal["tpe", "nsga2"] = "tpe"
    """Optuna's sampler: a tree of Parzen estimators, or the evolution of a population."""

    num_startup_trials: Trials = 10
    """Trials drawn at random before the estimators of `tpe` are used."""

    population_size: Annotated[int, Ge(2), Le(MAX_POPULATION)] = 50
    """Trials of a generation of `nsga2`."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields objectives that are missing or given twice."""
        yield from super().check()
        if not self.further_objectives:
            yield "further_objectives", "missing; expected at least one more metric that decides."
        known = {self.metric}
        for index, objective in enumerate(self.further_objectives):
            path = f"further_objectives[{index}].metric"
            if not objective.metric:
                yield path, "missing; expected the name of a validation metric."
            elif objective.metric in known:
                yield path, f"got {errors.show(objective.metric)} for the second time."
            known.add(objective.metric)


def choose(name: object) -> type[SearcherConfig]:
    """Returns the config class of a search method.

    Raises:
        ConfigError: If there is none of this name.
    """
    known = ", ".join(map(repr, SEARCHERS))
    if name is None:
        raise errors.ConfigError(f"searcher.name: missing, expected one of {known}.")
    if not isinstance(name, str) or name not in SEARCHERS:
        near = errors.suggest(name, SEARCHERS) if isinstance(name, str) else ""
        raise errors.ConfigError(
            f"searcher.name: got {errors.show(name)}, expected one of {known}.{near}"
        )
    return SEARCHERS[name]
