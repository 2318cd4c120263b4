"""Base config of search methods, and their registry by name."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from annotated_types import Ge, Gt, Le

from quintain import errors
from quintain.config import base_config
from quintain.records.views import trial_filter

Count = Annotated[int, Gt(0)]
Length = Annotated[int, Ge(0), Le(10**12)]
"""Units of training; 0 where it is missing."""
Trials = Annotated[int, Ge(0), Le(10**6)]
"""Number of trials; 0 where it is missing, or for no limit."""

_MOST_POINTS: Final = ("max_trials", "population_size")
"""Fields that bound the points that a search draws at its beginning."""


SEARCHERS: Final[dict[str, type["SearcherConfig"]]] = {}
"""Configs by `searcher.name`."""

C = TypeVar("C", bound="type[SearcherConfig]")


@dataclasses.dataclass
class SearcherConfig(base_config.Config):
    """Fields of all search methods."""

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

    directions: dict[str, Literal["min", "max"]] = dataclasses.field(default_factory=dict)
    """Which value of other metrics is the best, by their names. Tasks add what they declare."""

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


def searcher(name: str, method: str) -> Callable[[C], C]:
    """Returns a decorator that makes a config one of `searcher.name`, and names its method."""

    def declare(config: C) -> C:
        config.METHOD = method
        SEARCHERS[name] = config
        return config

    return declare
