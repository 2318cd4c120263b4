"""Configs of the search methods, chosen by `searcher.name`.

Each of them names the code of its method, which it does not import: reading a config needs none of
it. To add one, write its class here, and what it names in `quintain/search/`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from annotated_types import Ge, Gt, Le, Len

from quintain import errors
from quintain.config import base_config
from quintain.records import trial_filter

Count = Annotated[int, Gt(0)]
Length = Annotated[int, Ge(0), Le(10**12)]
"""Units of training; 0 where it is missing."""
Trials = Annotated[int, Ge(0), Le(10**6)]
"""Number of trials; 0 where it is missing, or for no limit."""
Rungs = Annotated[int, Gt(0), Le(50)]
Divisor = Annotated[float, Gt(1), Le(10**6)]
Mode = Literal["aggressive", "standard", "conservative"]
Share = Annotated[float, Ge(0), Le(1)]

_MOST_POINTS: Final = ("max_trials", "population_size")
"""Fields that bound the points that a search draws at its beginning."""

MAX_BUDGET_STEPS: Final = 50_000
MAX_SIMPLE_TRIALS: Final = 2_000


SEARCHERS: Final[dict[str, type["SearcherConfig"]]] = {}
"""Configs by `searcher.name`."""

C = TypeVar("C", bound="type[SearcherConfig]")


@dataclasses.dataclass
class SearcherConfig(base_config.Config):
    """What all search methods share."""

    METHOD: ClassVar[str] = ""
    """`module:function` below `quintain.search` that builds the method from the space, a source of
    random numbers, and the fields of the subclass."""

    REQUIRED: ClassVar[tuple[str, ...]] = ()
    """Whole numbers that have to be set."""

    name: str = ""
    """Which search method."""

    metric: str = ""
    """Validation metric that decides."""

    smaller_is_better: bool = True
    """Whether smaller values of the metric are better."""

    source_trial_id: Count | None = None
    """Trial from whose newest checkpoint all trials start."""

    source_checkpoint_uuid: str | None = None
    """Checkpoint from which all trials start."""

    initial_points: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Hyperparameters of the first trials, one mapping for each; what one leaves out is drawn."""

    stop_trial_when: str = ""
    """Expression over a validation's metrics and `total_batches`, such as `accuracy >= 0.99`. A
    trial whose validation fulfils it is saved and ends."""

    stop_when: str = ""
    """The same for the whole search: the first trial that fulfils it ends it."""

    time_budget: Annotated[float, Gt(0), Le(1e9)] | None = None
    """Seconds after which the search ends; those in which the experiment is paused, or no master
    runs, do not count. None for no limit."""

    batches_per_unit: Count = 1
    """Batches that the lengths of this config count; more than 1 where they are in steps."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields that are missing or do not fit together."""
        if not self.metric:
            yield "metric", "missing; expected the name of a validation metric."
        if self.source_trial_id is not None and self.source_checkpoint_uuid is not None:
            yield (
                "source_checkpoint_uuid",
                f"got {errors.show(self.source_checkpoint_uuid)} together with source_trial_id="
                f"{self.source_trial_id}, expected at most one of them.",
            )
        most = next((n for name in _MOST_POINTS if (n := getattr(self, name, 0))), math.inf)
        if len(self.initial_points) > most:
            yield (
                "initial_points",
                f"got {len(self.initial_points)}, expected at most one for each of {most} trials.",
            )
        for name in ("stop_trial_when", "stop_when"):
            try:
                trial_filter.check(getattr(self, name))
            except errors.ConfigError as error:
                yield name, str(error).removeprefix("where: ")
        for name in self.REQUIRED:
            if getattr(self, name) == 0:
                yield name, f"missing; the search method {errors.show(self.name)} needs it."


def _searcher(name: str, method: str) -> Callable[[C], C]:
    """Returns a decorator that makes a config one of `searcher.name`, and names its method."""

    def declare(config: C) -> C:
        config.METHOD = method
        SEARCHERS[name] = config
        return config

    return declare


@_searcher("single", "random_search:build_single")
@dataclasses.dataclass
class SingleConfig(SearcherConfig):
    """One trial."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length",)

    max_length: Length = 0
    """Length to train the trial for."""


@_searcher("random", "random_search:RandomSearch")
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


@_searcher("grid", "random_search:GridSearch")
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
    """What adaptive searches share."""

    mode: Mode = "standard"
    """How bold it is: `aggressive` stops most trials early, `conservative` few."""

    divisor: Divisor = 4.0
    """One trial of so many goes on."""

    max_rungs: Rungs = 5
    """Rungs of the largest bracket."""


@_searcher("adaptive", "adaptive:build_adaptive")
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


@_searcher("adaptive_simple", "adaptive:build_adaptive_simple")
@dataclasses.dataclass
class AdaptiveSimpleConfig(_BracketConfig):
    """Brackets of successive halving with a number of trials."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "max_trials")

    max_length: Length = 0
    """Length to train the best trials for."""

    max_trials: Annotated[int, Ge(0), Le(MAX_SIMPLE_TRIALS)] = 0
    """Trials in all."""


@_searcher("sync_halving", "halving:build_halving")
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


@_searcher("async_halving", "asha:build_asha")
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


@_searcher("adaptive_asha", "adaptive:build_adaptive_asha")
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
    """Which trials of a population are replaced."""

    truncate_fraction: Annotated[float, Ge(0), Le(0.5)] = 0.2
    """Part of the population that is replaced after each round."""


@dataclasses.dataclass
class ExploreFunctionConfig(base_config.Config):
    """How copies differ from their parents."""

    resample_probability: Share = 0.2
    """Probability that a hyperparameter is drawn anew."""

    perturb_factor: Share = 0.2
    """Change of the other hyperparameters, as a fraction of their value."""


@_searcher("pbt", "pbt:PbtSearch")
@dataclasses.dataclass
class PbtConfig(SearcherConfig):
    """Population-based training."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("population_size", "num_rounds", "length_per_round")

    population_size: Trials = 0
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


@_searcher("tpe", "bayesian:TpeSearch")
@dataclasses.dataclass
class TpeConfig(RandomConfig):
    """Bayesian search by a tree of Parzen estimators."""

    num_startup_trials: Trials = 10
    """Trials drawn at random before the estimators are used."""

    num_rungs: Rungs = 1
    """Rungs of ASHA stopping; 1 trains every trial to the end."""

    divisor: Divisor = 4.0
    """One trial of so many goes on, where there are rungs."""


def choose(name: object) -> type[SearcherConfig]:
    """Returns the config class of a search method.

    Raises:
        ConfigError: If there is none of this name.
    """
    if name is None:
        raise errors.ConfigError(
            f"searcher.name: missing, expected one of {', '.join(map(repr, SEARCHERS))}."
        )
    if not isinstance(name, str) or name not in SEARCHERS:
        raise errors.ConfigError(
            f"searcher.name: got {errors.show(name)}, expected one of "
            f"{', '.join(map(repr, SEARCHERS))}."
            f"{errors.suggest(name, SEARCHERS) if isinstance(name, str) else ''}"
        )
    return SEARCHERS[name]
