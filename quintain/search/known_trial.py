"""Results of earlier trials, from which a search method learns before its start."""

import bisect
import dataclasses
from collections.abc import Sequence

from quintain.search import rungs as rungs_lib
from quintain.search import space as space_lib


@dataclasses.dataclass(frozen=True)
class KnownTrial:
    """One trial that has ended, with at least one result."""

    name: str
    """Unique among all trials of the search."""

    hparams: space_lib.Hparams
    """Its hyperparameters, which the space of the search has."""

    results: tuple[tuple[int, float], ...]
    """Lengths, rising, and metrics there, signed so that smaller is better."""

    further: tuple[float, ...] = ()
    """The other metrics that decide, as they were measured at the last length."""

    @property
    def length(self) -> int:
        """Units that it was trained for."""
        return self.results[-1][0]

    @property
    def metric(self) -> float:
        """Its last metric."""
        return self.results[-1][1]

    def place(self, lengths: Sequence[int]) -> dict[int, float]:
        """Returns its metrics in rungs, by their index.

        Metrics of different lengths are not compared: a rung takes the first one that is at least
        as long, and shorter than the next rung.

        Args:
            lengths: Those of the rungs, rising.

        Example:
            >>> KnownTrial("a", {}, ((3, 0.5), (4, 0.4), (16, 0.2))).place([4, 8, 16])
            {0: 0.4, 2: 0.2}
        """
        placed: dict[int, float] = {}
        for length, metric in self.results:
            index = bisect.bisect_right(lengths, length) - 1
            if index >= 0:
                placed.setdefault(index, metric)
        return placed


def fill_rungs(rungs: Sequence[rungs_lib.Rung], history: Sequence[KnownTrial]) -> None:
    """Enters results of earlier trials into rungs, where others are compared with them."""
    lengths = [rung.length for rung in rungs]
    for trial in history:
        for index, metric in trial.place(lengths).items():
            rungs[index].learn(trial.name, metric)
