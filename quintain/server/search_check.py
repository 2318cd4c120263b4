"""What an experiment would be, found out without creating it."""

import time
from collections.abc import Sequence
from typing import Any, Final

from quintain.scheduler import faults, new_experiments
from quintain.search import simulate

_MAX_TRIALS: Final = 2000
_MAX_SECS: Final = 1.0


def check(config_text: str, source: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Returns how many trials a search would have, and how long they would train.

    Args:
        config_text: The config, as YAML.
        source: Name of the text, for messages.
        overrides: `path=value` each; they win over the config.

    Raises:
        ConfigError: Listing all that is wrong.
    """
    config = new_experiments.read_config(config_text, source, overrides)
    deadline_secs = time.monotonic() + _MAX_SECS
    with faults.explaining_search():
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
