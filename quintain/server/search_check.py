"""Dry run of an experiment's config: its trials, without creating it."""

import time
from typing import Any, Final

from quintain.master import unexpected_errors
from quintain.records.config import experiment_spec
from quintain.search import simulate

_MAX_TRIALS: Final = 2000
_MAX_SECS: Final = 1.0


def check(config: experiment_spec.ExperimentSpec) -> dict[str, Any]:
    """Returns how many trials a search would have, and how long they would train.

    Raises:
        ConfigError: If it can't be played.
    """
    deadline_secs = time.monotonic() + _MAX_SECS
    with unexpected_errors.search_errors_explained():
        estimate = simulate.estimate(
            config, _MAX_TRIALS, lambda _: time.monotonic() >= deadline_secs
        )
    return {
        "name": config.name,
        "searcher": config.searcher.name,
        "metric": config.searcher.metric,
        "num_trials": estimate.num_trials,
        "total_batches": estimate.total_length * config.searcher.batches_per_unit,
        "max_concurrent_trials": estimate.max_concurrent_trials,
        "is_extrapolated": estimate.is_extrapolated,
    }
