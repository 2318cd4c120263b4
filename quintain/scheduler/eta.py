"""How long experiments still take."""

from quintain.records import experiment_config, searcher_config
from quintain.scheduler import entries
from quintain.search import search_factory, simulate


def estimate_secs(entry: entries.Entry, num_running: int) -> float | None:
    """Returns the seconds until a search is over, or None if nothing is known yet.

    What is left is what a simulated search would train (with all metrics equal) without what is
    done. It is as fast as the workloads were that this master has seen, in as many trials at once
    as run now.

    Args:
        entry: The experiment.
        num_running: Trials that run.
    """
    if entry.machine.state.is_stopping or entry.machine.is_search_over:
        return 0.0
    if not entry.num_timed_batches or not num_running:
        return None
    if entry.simulated_batches is None:
        entry.simulated_batches = simulate_batches(entry.config)
    machines = entry.machine.trials.values()
    asked = sum(
        max(machine.target_batches - machine.total_batches, 0)
        for machine in machines
        if not machine.state.is_terminal
    )
    left = max(entry.simulated_batches - entry.machine.num_done_batches, asked)
    return left * entry.busy_secs / entry.num_timed_batches / num_running


def simulate_batches(config: experiment_config.ExperimentConfig) -> int:
    """Returns the batches that a search trains in all if every metric is the same."""
    unit = config.searcher.batches_per_unit
    if isinstance(config.searcher, searcher_config.TpeConfig):
        return config.searcher.max_trials * config.searcher.max_length * unit
    search = search_factory.build_searcher(config)
    return simulate.simulate(search, lambda name, length: 0.0).total_length * unit
