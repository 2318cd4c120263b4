"""Times the events of search methods in simulated searches of up to 10,000 trials.

python benchmarks/search_methods.py [TRIALS]

Prints microseconds for each event: a validation, a checkpoint or an end that a method is told, with
all it answers, new trials with their hyperparameters included.
"""

import sys
import time
from typing import Any

from quintain.records.config import experiment_spec
from quintain.search import search_factory, searcher, simulate

SPACE = {
    "learning_rate": {"type": "log", "base": 10, "minval": -4, "maxval": -1, "count": 40},
    "units": {"type": "int", "minval": 16, "maxval": 128, "count": 50},
}
LENGTH = {"batches": 1000}


def build_searchers(num_trials: int) -> dict[str, dict[str, Any]]:
    """Returns the configs of the methods; some have limits below the number of trials."""
    return {
        "random": {"name": "random", "max_length": LENGTH, "max_trials": num_trials},
        "grid": {"name": "grid", "max_length": LENGTH},
        "adaptive_simple": {
            "name": "adaptive_simple",
            "max_length": LENGTH,
            "max_trials": min(num_trials, 2000),
        },
        "async_halving": {
            "name": "async_halving",
            "max_length": LENGTH,
            "max_trials": num_trials,
            "num_rungs": 5,
        },
        "async_halving, stop_once": {
            "name": "async_halving",
            "max_length": LENGTH,
            "max_trials": num_trials,
            "num_rungs": 5,
            "stop_once": True,
        },
        "adaptive_asha": {"name": "adaptive_asha", "max_length": LENGTH, "max_trials": num_trials},
        "pbt": {
            "name": "pbt",
            "population_size": num_trials // 10,
            "num_rounds": 10,
            "length_per_round": {"batches": 100},
            "replace_function": {"truncate_fraction": 0.2},
            "explore_function": {"resample_probability": 0.2, "perturb_factor": 0.2},
        },
    }


class TimedSearcher(searcher.Searcher):
    """Adds up the time of its events."""

    secs = 0.0
    num_events = 0

    def record(self, event: searcher.Event) -> list[Any]:
        """Times an event."""
        start = time.perf_counter()
        operations = super().record(event)
        self.secs += time.perf_counter() - start
        self.num_events += 1
        return operations


def main() -> None:
    """Prints a line for each method."""
    num_trials = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for label, config in build_searchers(num_trials).items():
        parsed = experiment_spec.parse(
            {
                "searcher": {"metric": "loss", **config},
                "hyperparameters": SPACE,
                "reproducibility": {"experiment_seed": 1},
            }
        )
        plain = search_factory.build_searcher(parsed)
        timed = TimedSearcher(plain._method)
        result = simulate.simulate(timed, lambda name, length: hash((name, length)) % 10**6)
        micros = 1e6 * timed.secs / timed.num_events
        print(
            f"{label:26} {len(result.lengths):6} trials {timed.num_events:7} events "
            f"{micros:6.1f} us/event"
        )


if __name__ == "__main__":
    main()
