"""How long experiments still take."""

import math

from quintain.master import entries
from quintain.master.machine import active_time


def estimate_secs(entry: entries.Entry, num_running: int) -> float | None:
    """Returns the seconds until a search is over, or None if nothing is known yet.

    What is left is what the search method expects, or what is left of the budget of time. It is as
    fast as the last workloads were that this master has seen, in as many trials at once as run now.

    Args:
        entry: The experiment.
        num_running: Trials that run.
    """
    machine = entry.machine
    if machine.state.is_stopping or machine.search.is_over:
        return 0.0
    secs = machine.find_time_left(active_time.now())
    if entry.num_timed_batches and num_running:
        secs_per_batch = entry.busy_secs / entry.num_timed_batches
        secs = min(secs, machine.search.num_left_batches * secs_per_batch / num_running)
    return max(secs, 0.0) if math.isfinite(secs) else None
