"""How long experiments still take."""

from quintain.scheduler import entries


def estimate_secs(entry: entries.Entry, num_running: int) -> float | None:
    """Returns the seconds until a search is over, or None if nothing is known yet.

    What is left is what the search method expects. It is as fast as the last workloads were that
    this master has seen, in as many trials at once as run now.

    Args:
        entry: The experiment.
        num_running: Trials that run.
    """
    if entry.machine.state.is_stopping or entry.machine.search.is_over:
        return 0.0
    if not entry.num_timed_batches or not num_running:
        return None
    secs_per_batch = entry.busy_secs / entry.num_timed_batches
    return entry.machine.search.num_left_batches * secs_per_batch / num_running
