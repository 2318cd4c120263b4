"""Configs of the search methods, chosen by `searcher.name`.

Each of them names the code of its method, which it does not import: reading a config needs none of
it. To add one, write its class here, and what it names in `quintain/search/`.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from annotated_types import Ge, Gt, Le, Len

from quintain import errors
from quintain.config import base_config
from quintain.records.views import trial_filter

Count = Annotated[int, Gt(0)]
Number = Annotated[int, Gt(0), Le(10**12)]
"""Number of an experiment or of a trial."""
Length = Annotated[int, Ge(0), Le(10**12)]
"""Units of training; 0 where it is missing."""
Trials = Annotated[int, Ge(0), Le(10**6)]
"""Number of trials; 0 where it is missing, or for no limit."""

METRIC_FORMAT: Final = re.compile(r"\.\d[%feg]")
"""Formats that the commands and the page write alike."""

_MOST_POINTS: Final = ("max_trials", "population_size")
"""Fields that bound the points that a search draws at its beginning."""

Rungs = Annotated[int, Gt(0), Le(50)]
BracketRungs = Annotated[list[Rungs], Len(0, 100)]
Divisor = Annotated[float, Gt(1), Le(10**6)]
Mode = Literal["aggressive", "standard", "conservative"]
Share = Annotated[float, Ge(0), Le(1)]

MAX_BUDGET_STEPS: Final = 50_000
MAX_SIMPLE_TRIALS: Final = 2_000
MAX_POPULATION: Final = 10_000
"""Trials that are created at once; the master does nothing else meanwhile."""

MAX_MODELLED_TRIALS: Final = 10_000
"""Trials that a model of all of them may propose: the time for each grows with their number."""

MAX_INHERITED: Final = 10_000
"""Trials that an experiment may share with the one it was rewound from."""

MAX_PROCESS_TRIALS: Final = 1_000
"""The same for a Gaussian process, which takes up to a fifth of a second for each."""

SEARCHERS: Final[dict[str, type["SearcherConfig"]]] = {}
"""Configs by `searcher.name`."""

C = TypeVar("C", bound="type[SearcherConfig]")


@dataclasses.dataclass
class ReplicateConfig(base_config.Config):
    """Further trainings of a search's best trials, which show how much was luck."""

    top: Annotated[int, Ge(0), Le(100)] = 8
    """Trials that are trained again; 0 for none."""

    seeds: Annotated[int, Ge(1), Le(100)] = 2
    """Further seeds of each, at most: whoever is clearly worse than the best gets fewer."""

    paired: bool = True
    """Whether these seeds are the same for all, so that luck is the same for all."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a single finalist, with which nothing is compared."""
        if self.top == 1:
            yield "top", "got 1, expected at least 2, or 0 for none."


@dataclasses.dataclass
class SearcherConfig(base_config.Config):
    """Fields of all search methods."""

    METHOD: ClassVar[str] = ""
    """`module:function` below `quintain.search` that builds the method from the space, a source of
    random numbers, and the fields of the subclass."""

    LEARNS: ClassVar[bool] = True
    """Whether the method can take earlier trials as its own."""

    REQUIRED: ClassVar[tuple[str, ...]] = ()
    """Whole numbers that have to be set."""

    name: str = ""
    """Which search method."""

    metric: str = ""
    """Validation metric that decides."""

    smaller_is_better: bool = True
    """Whether smaller values of the metric are better."""

    directions: dict[str, Literal["min", "max"]] = dataclasses.field(default_factory=dict)
    """Which value of other metrics is the best, by their names. Tasks add what they declare."""

    formats: dict[str, str] = dataclasses.field(default_factory=dict)
    """Formats of metrics by their names, as `.1%` or `.3f`. Tasks add what their labels have."""

    source_trial_id: Count | None = None
    """Trial from whose newest checkpoint all trials start."""

    source_checkpoint_uuid: str | None = None
    """Checkpoint from which all trials start."""

    initial_points: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Hyperparameters of the first trials, one mapping for each; what one leaves out is drawn."""

    learn_from: Annotated[list[Number], Len(0, 100)] = dataclasses.field(default_factory=list)
    """Experiments whose ended trials the method takes as its own results."""

    skip_misfits: bool = False
    """Whether trials outside the space are left out of these; else they are an error."""

    inherited: Annotated[list[Number], Len(0, MAX_INHERITED)] = dataclasses.field(
        default_factory=list
    )
    """Trials shared with the experiment that this one was rewound from; `max_trials` counts them.
    `quintain experiment rewind` sets it."""

    stop_trial_when: str = ""
    """Expression over a validation's metrics and `total_batches`, such as `accuracy >= 0.99`. A
    trial whose validation fulfils it is saved and ends."""

    stop_when: str = ""
    """The same for the whole search: the first trial that fulfils it ends it."""

    replicate: ReplicateConfig | None = None
    """Further seeds for the best trials, out of the same budget; `none` for none. What is missing
    becomes a default for a new search of at least 16 trials."""

    metric_of: Literal["mean", "lower_bound", "worst"] = "mean"
    """What ranks trials with several seeds: their mean, the worse end of its 95 % interval, or the
    worst of them."""

    time_budget: Annotated[float, Gt(0), Le(1e9)] | None = None
    """Seconds after which the search ends; those in which the experiment is paused, or no master
    runs, do not count. None for no limit."""

    batches_per_unit: Count = 1
    """Batches that the lengths of this config count; more than 1 where they are in steps."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields that are missing or do not fit together."""
        if not self.metric:
            yield "metric", "missing; expected the name of a validation metric."
        for name, form in self.formats.items():
            if not METRIC_FORMAT.fullmatch(form):
                yield (
                    f"formats.{name}",
                    f"got {errors.show(form)}, expected one like '.1%' or '.3f'.",
                )
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
        yield from self._check_earlier()
        for name in ("stop_trial_when", "stop_when"):
            try:
                trial_filter.check(getattr(self, name))
            except errors.ConfigError as error:
                yield name, str(error).removeprefix("where: ")
        for name in self.REQUIRED:
            if getattr(self, name) == 0:
                yield name, f"missing; the search method {errors.show(self.name)} needs it."

    def _check_earlier(self) -> Iterator[tuple[str, str]]:
        for name in ("learn_from", "inherited"):
            if getattr(self, name) and not self.LEARNS:
                message = f"the search method {self.name!r} can't use earlier trials; leave it out."
                yield name, message
        max_trials, num_inherited = getattr(self, "max_trials", 0), len(self.inherited)
        if max_trials and max_trials <= num_inherited:
            message = f"got {max_trials}, expected more than the {num_inherited} inherited trials."
            yield "max_trials", message


def searcher(name: str, method: str) -> Callable[[C], C]:
    """Returns a decorator that makes a config one of `searcher.name`, and names its method."""

    def declare(config: C) -> C:
        config.METHOD = method
        SEARCHERS[name] = config
        return config

    return declare


@dataclasses.dataclass
class _LengthConfig(SearcherConfig):
    """Fields of methods that train trials for a length."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length",)

    max_length: Length = 0
    """Length to train trials for; of the methods that stop some, the best ones."""


@dataclasses.dataclass
class _TrialsConfig(_LengthConfig):
    """Fields of methods with a number of trials."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "max_trials")

    max_trials: Trials = 0
    """Trials in all."""


@dataclasses.dataclass
class _BudgetConfig(_LengthConfig):
    """Fields of methods with a budget."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("max_length", "budget")

    budget: Length = 0
    """Training in all, over all trials."""

    train_stragglers: bool = True
    """Kept for old configs; a rung always waits for all of its trials."""


@dataclasses.dataclass
class _AshaConfig(_TrialsConfig):
    """Fields of methods whose rungs do not wait for all of their trials."""

    max_concurrent_trials: Trials = 0
    """Trials at work; 0 for as many as give one in the last rung of the smallest bracket."""

    stop_once: bool = False
    """Whether trials are stopped in their rung instead of waiting to be promoted."""


@dataclasses.dataclass
class _BracketConfig(SearcherConfig):
    """Fields of methods with several brackets."""

    mode: Mode = "standard"
    """How bold it is: `aggressive` stops most trials early, `conservative` few."""

    divisor: Divisor = 4.0
    """One trial of so many goes on."""

    max_rungs: Rungs = 5
    """Rungs of the largest bracket."""


@dataclasses.dataclass
class _HalvingConfig(SearcherConfig):
    """Fields of methods with one bracket."""

    num_rungs: Rungs = 3
    """Rungs."""

    divisor: Divisor = 4.0
    """One trial of so many goes on."""


@searcher("single", "random_search:build_single")
@dataclasses.dataclass
class SingleConfig(_LengthConfig):
    """One trial."""

    LEARNS: ClassVar[bool] = False

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields points for which there is no trial."""
        yield from super().check()
        if len(self.initial_points) > 1:
            yield "initial_points", f"got {len(self.initial_points)}, expected at most one."


@searcher("random", "random_search:RandomSearch")
@dataclasses.dataclass
class RandomConfig(_TrialsConfig):
    """Trials with hyperparameters drawn at random."""

    max_concurrent_trials: Trials = 0
    """Trials at once; 0 for all."""


@searcher("grid", "random_search:GridSearch")
@dataclasses.dataclass
class GridConfig(_LengthConfig):
    """One trial for each point of a grid."""

    max_concurrent_trials: Trials = 0
    """Trials at once; 0 for all."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields points, which a grid has of its own."""
        yield from super().check()
        if self.initial_points:
            yield "initial_points", "got points, but a grid tries all of its own; leave them out."


@searcher("adaptive", "adaptive:build_adaptive")
@dataclasses.dataclass
class AdaptiveConfig(_BracketConfig, _BudgetConfig):
    """Brackets of successive halving with a budget."""

    bracket_rungs: BracketRungs = dataclasses.field(default_factory=list)
    """Rungs of each bracket, instead of those of `mode`."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields that do not fit together."""
        yield from super().check()
        if self.budget and self.budget <= self.max_length:
            yield "budget", f"got {self.budget}, expected more than max_length={self.max_length}."
        if self.budget > MAX_BUDGET_STEPS and self.batches_per_unit > 1:
            yield "budget", f"got {self.budget:,} steps, expected at most {MAX_BUDGET_STEPS:,}."


@searcher("adaptive_simple", "adaptive:build_adaptive_simple")
@dataclasses.dataclass
class AdaptiveSimpleConfig(_BracketConfig, _TrialsConfig):
    """Brackets of successive halving with a number of trials."""

    max_trials: Annotated[int, Ge(0), Le(MAX_SIMPLE_TRIALS)] = 0


@searcher("sync_halving", "halving:build_halving")
@dataclasses.dataclass
class SyncHalvingConfig(_HalvingConfig, _BudgetConfig):
    """One bracket of successive halving with a budget."""


@searcher("async_halving", "asha:build_asha")
@dataclasses.dataclass
class AsyncHalvingConfig(_HalvingConfig, _AshaConfig):
    """One bracket of ASHA."""


@searcher("adaptive_asha", "adaptive:build_adaptive_asha")
@dataclasses.dataclass
class AdaptiveAshaConfig(_BracketConfig, _AshaConfig):
    """Brackets of ASHA."""

    bracket_rungs: BracketRungs = dataclasses.field(default_factory=list)
    """Rungs of each bracket, instead of those of `mode`."""


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


@searcher("pbt", "pbt:PbtSearch")
@dataclasses.dataclass
class PbtConfig(SearcherConfig):
    """Population-based training."""

    LEARNS: ClassVar[bool] = False
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


@searcher("tpe", "bayesian:build_tpe")
@dataclasses.dataclass
class TpeConfig(RandomConfig):
    """Bayesian search by a tree of Parzen estimators."""

    max_trials: Annotated[int, Ge(0), Le(MAX_MODELLED_TRIALS)] = 0
    num_startup_trials: Trials = 10
    """Trials drawn at random before the estimators are used."""

    num_rungs: Rungs = 1
    """Rungs of ASHA stopping; 1 trains every trial to the end."""

    divisor: Divisor = 4.0
    """One trial of so many goes on, where there are rungs."""


@searcher("gp", "bayesian:build_gp")
@dataclasses.dataclass
class GpConfig(RandomConfig):
    """Bayesian search by a Gaussian process that knows that results have noise."""

    max_trials: Annotated[int, Ge(0), Le(MAX_PROCESS_TRIALS)] = 0
    num_startup_trials: Trials = 10
    """Trials drawn at random before the process is used."""


@searcher("auto", "auto:build_auto")
@dataclasses.dataclass
class AutoConfig(_LengthConfig):
    """The method that finds most with so much training, as measured."""

    max_trials: Trials = 0
    """Trials in all, at most; 0 for as many as the budget pays."""

    budget: Length = 0
    """Training in all, over all trials; 0 for all trials to the end."""

    max_concurrent_trials: Trials = 0
    """Trials at once; 0 leaves it to the method."""

    method: Literal["", "random", "tpe", "gp", "async_halving", "adaptive_asha"] = ""
    """The method; chosen where the experiment is created, if it is empty."""

    reason: str = ""
    """Why it was chosen."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a search without a size."""
        yield from super().check()
        if not self.max_trials and not self.budget:
            yield "max_trials", "missing; expected it, or a budget, or both."
        if self.method and not self.max_trials:
            yield "max_trials", f"missing; expected it beside method={self.method!r}."
        most = {"gp": MAX_PROCESS_TRIALS, "tpe": MAX_MODELLED_TRIALS}.get(self.method, math.inf)
        if self.max_trials > most:
            yield (
                "max_trials",
                f"got {self.max_trials:,}, expected at most {most:,}, as the chosen method "
                f"{self.method!r} has.",
            )
        if self.budget and self.budget < self.max_length:
            yield "budget", f"got {self.budget}, expected at least max_length={self.max_length}."


@dataclasses.dataclass
class ObjectiveConfig(base_config.Config):
    """One more metric that decides."""

    metric: str = ""
    """Validation metric."""

    smaller_is_better: bool = True
    """Whether smaller values of the metric are better."""


@searcher("multi_objective", "bayesian:build_multi_objective")
@dataclasses.dataclass
class MultiObjectiveConfig(RandomConfig):
    """Bayesian or evolutionary search for the Pareto front of several metrics."""

    max_trials: Annotated[int, Ge(0), Le(MAX_MODELLED_TRIALS)] = 0
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


def explain_unknown(name: object) -> str:
    """Returns what to write in the place of a name that no search method has."""
    known = ", ".join(map(repr, SEARCHERS))
    if name is None:
        return f"missing, expected one of {known}."
    near = errors.suggest(name, SEARCHERS) if isinstance(name, str) else ""
    return f"got {errors.show(name)}, expected one of {known}.{near}"
