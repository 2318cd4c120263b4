"""Demand of waiting trials for machines, for launchers that can add some."""

import dataclasses
from collections.abc import Sequence

from quintain.master.placing import pools


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Trials of one experiment that wait for slots."""

    needs: pools.Needs
    """What machines and slots must have."""

    num_slots: int
    """Slots of each process, which are on one machine."""

    num_processes: int
    """Processes of each trial."""

    num_trials: int
    """How many trials wait that could run at the same time."""


@dataclasses.dataclass(frozen=True)
class Demand:
    """Demand of all experiments."""

    wanted: tuple[Wanted, ...] = ()
    """What waits, the most urgent first."""

    num_held: int = 0
    """Slots that trials hold on other machines than the master's."""

    def cut(self, most_slots: int) -> tuple[Wanted, ...]:
        """Returns what may be asked for: whole trials, as many as are within a bound."""
        left, kept = most_slots - self.num_held, []
        for each in self.wanted:
            size = each.num_slots * each.num_processes
            count = min(each.num_trials, left // size)
            if count > 0:
                left -= count * size
                kept.append(dataclasses.replace(each, num_trials=count))
        return tuple(kept)


def count_slots(wanted: Sequence[Wanted]) -> int:
    """Returns how many slots these are.

    Example:
        >>> count_slots([Wanted(pools.Needs(), 2, 3, 4)])
        24
    """
    return sum(each.num_slots * each.num_processes * each.num_trials for each in wanted)
