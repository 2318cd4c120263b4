"""Simulation of a search without training, for previews and estimates."""

import collections
import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from quintain.records.config import experiment_spec
from quintain.search import base_search, search_factory, searcher

MAX_EVENTS: Final = 5_000_000
"""Events after which a simulation is taken for one that never ends."""

MetricFn = Callable[[str, int], float]
"""Gives the metric of a trial (by the name of its request) at a length."""


@dataclasses.dataclass
class Simulation:
    """Result of a simulated search."""

    lengths: dict[str, int] = dataclasses.field(default_factory=dict)
    """Units each trial was trained for, by its name, in the order of creation."""

    validations: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    """Lengths at which each trial was validated."""

    hparams: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict)
    """Hyperparameters of each trial."""

    parents: dict[str, str] = dataclasses.field(default_factory=dict)
    """Trials from whose checkpoints others started."""

    max_open: int = 0
    """Largest number of trials that were open at once."""

    is_over: bool = False
    """Whether the search ended, and not the patience."""

    @property
    def total_length(self) -> int:
        """Units of training of all trials together."""
        return sum(self.lengths.values())


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Estimated size of a search."""

    done: Simulation
    """What was simulated of it."""

    num_trials: int
    """Trials."""

    total_length: int
    """Units of training of all trials together."""

    is_extrapolated: bool
    """Whether both follow from its first trials alone."""

    @property
    def max_concurrent_trials(self) -> int:
        """Largest number of trials that would be open at once."""
        is_all = self.done.max_open == len(self.done.lengths)
        return self.num_trials if is_all else self.done.max_open


def estimate(
    config: experiment_spec.ExperimentSpec,
    max_trials: int,
    is_enough: Callable[[Simulation], bool],
) -> Estimate:
    """Runs the search of a config with random metrics, or its beginning if it is long.

    Args:
        config: The config.
        max_trials: Trials to simulate at most, or about so many.
        is_enough: Asked again and again whether to stop there.
    """
    random = np.random.RandomState(config.reproducibility.experiment_seed)
    config = search_factory.settle(config)
    small = shrink(config, max_trials)
    done = simulate(
        search_factory.build_searcher(small),
        lambda *_: float(random.random_sample()),
        is_enough=is_enough,
    )
    is_extrapolated = small is not config or not done.is_over
    total = done.total_length
    if is_extrapolated:
        total = round(search_factory.build_searcher(config).left(0))
    num_trials = round(len(done.lengths) * total / max(done.total_length, 1))
    if is_extrapolated and hasattr(config.searcher, "max_trials"):
        num_trials = config.searcher.max_trials - len(config.searcher.inherited)
    return Estimate(done, num_trials, total, is_extrapolated)


def shrink(
    config: experiment_spec.ExperimentSpec, max_trials: int
) -> experiment_spec.ExperimentSpec:
    """Returns a config of the same search with no more than about so many trials at its start.

    Args:
        config: The config.
        max_trials: Trials that a simulation may create at once.
    """
    method = config.searcher
    change: dict[str, int] = {}
    num_inherited = len(method.inherited)
    if getattr(method, "max_trials", 0) - num_inherited > max_trials:
        change["max_trials"] = max_trials + num_inherited
    if getattr(method, "population_size", 0) > max_trials:
        change["population_size"] = max_trials
    budget = getattr(method, "budget", 0)
    if budget:
        # A trial of the first rung takes at least a unit, and each rung about as much as the first.
        change["budget"] = min(budget, max(max_trials, 2 * method.max_length))
    if not change:
        return config
    return config.replace(searcher=method.replace(**change, replicate={"top": 0}))


def simulate(  # noqa: C901 - one case for each kind of operation
    search: searcher.Searcher,
    metric_fn: MetricFn,
    result: Simulation | None = None,
    *,
    is_enough: Callable[[Simulation], bool] = lambda _: False,
) -> Simulation:
    """Runs a search to its end, one operation after the other, in the order they were given.

    Args:
        search: A fresh search.
        metric_fn: Metrics to report.
        result: Filled and returned; for metrics that depend on what was done so far.
        is_enough: Asked before each validation whether to stop there.

    Raises:
        RuntimeError: If operations run out before the search is over, or never do.
    """
    result = Simulation() if result is None else result
    queue = collections.deque(search.start())
    for _ in range(MAX_EVENTS):
        if not queue:
            break
        result.max_open = max(result.max_open, search.num_open)
        operation = queue.popleft()
        match operation:
            case base_search.Create(request_id, hparams, _, parent):
                result.lengths[request_id] = 0
                result.validations[request_id] = []
                result.hparams[request_id] = hparams
                if parent is not None:
                    result.parents[request_id] = parent
            case base_search.Train(request_id, length):
                result.lengths[request_id] = length
            case base_search.Validate(request_id):
                if is_enough(result):
                    return result
                length = result.lengths[request_id]
                result.validations[request_id].append(length)
                metric = metric_fn(request_id, length)
                further = (metric,) * search.method.num_further
                event = searcher.Validated(request_id, metric, length, further)
                queue.extend(search.record(event))
            case base_search.Checkpoint(request_id):
                queue.extend(search.record(searcher.Checkpointed(request_id)))
            case base_search.Close(request_id):
                queue.extend(search.record(searcher.Closed(request_id)))
            case base_search.Note():
                pass
            case base_search.Shutdown():
                result.is_over = True
                return result
    raise RuntimeError(
        f"The simulated search did not end: {search.num_open} trials are open and "
        f"{len(queue)} operations are left."
    )
