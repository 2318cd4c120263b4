"""Statistics over seeds: how well settings do that were trained more than once.

Source:
    Student's t over settings and seeds as a two-way layout, which is the paired test where there
    are two settings; Welch's (1947) where there are no pairs.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

REPLICATE: Final = "+"
"""Stands between the name of a trial and the number of a further seed, in a replicate's name."""


def find_original(request_id: str) -> str:
    """Returns the name of the trial that another one repeats, or the trial's own.

    Example:
        >>> find_original("a+2"), find_original("a")
        ('a', 'a')
    """
    return request_id.partition(REPLICATE)[0]


_QUANTILES: Final = {
    0.95: (
        6.314, 2.920, 2.354, 2.132, 2.016, 1.944, 1.895, 1.860, 1.834, 1.813, 1.796, 1.783, 1.771,
        1.762, 1.754, 1.746, 1.740, 1.735, 1.730, 1.725, 1.721, 1.718, 1.714, 1.711, 1.709, 1.706,
        1.704, 1.702, 1.700, 1.698,
    ),
    0.975: (
        12.707, 4.303, 3.183, 2.777, 2.571, 2.447, 2.365, 2.307, 2.263, 2.229, 2.201, 2.179, 2.161,
        2.145, 2.132, 2.120, 2.110, 2.101, 2.094, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.049, 2.046, 2.043,
    ),
}  # fmt: skip
"""Quantiles of Student's t for 1 to 30 degrees of freedom, rounded up; the last for more."""


def find_quantile(freedom: float, probability: float = 0.975) -> float:
    """Returns the quantile of Student's t, or a little more.

    Args:
        freedom: Degrees of freedom, at least 1; parts of one do not count.
        probability: 0.95 or 0.975.
    """
    table = _QUANTILES[probability]
    return table[min(int(freedom), len(table)) - 1]


@dataclasses.dataclass(frozen=True)
class Noise:
    """Spread of results that only their seeds cause."""

    deviation: float
    """Standard deviation of a single result; NaN if it is not known."""

    freedom: int
    """Degrees of freedom of the estimate."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> "Noise":
        """Estimates the noise from results of several settings.

        What a seed does to all settings alike is no noise, as it does not change their order.

        Args:
            rows: Results of each setting, in the same order of seeds.

        Example:
            >>> Noise.of([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0]])
            Noise(deviation=0.0, freedom=2)
        """
        freedom = (len(rows) - 1) * (len(rows[0]) - 1) if rows else 0
        if freedom < 1:
            return cls(math.nan, 0)
        of_settings = [statistics.fmean(row) for row in rows]
        of_seeds = [statistics.fmean(column) for column in zip(*rows, strict=True)]
        middle = statistics.fmean(of_settings)
        squares = math.fsum(
            (value - of_settings[i] - of_seeds[j] + middle) ** 2
            for i, row in enumerate(rows)
            for j, value in enumerate(row)
        )
        return cls(math.sqrt(squares / freedom), freedom)

    def find_half_width(self, num_seeds: int) -> float:
        """Returns half of the 95 % interval of the difference of two settings' means."""
        if not self.freedom:
            return math.nan
        return find_quantile(self.freedom) * self.deviation * math.sqrt(2 / num_seeds)


def find_contenders(rows: Mapping[str, Sequence[float]]) -> list[str]:
    """Returns the settings that are not clearly worse than the best one.

    Args:
        rows: Results of each setting, smaller is better, in the same order of seeds. One with a
            result that is infinite, as that of a failed trial, is out unless all are.
    """
    finite = {name: row for name, row in rows.items() if all(map(math.isfinite, row))}
    if not finite:
        return list(rows)
    noise = Noise.of(list(finite.values()))
    means = {name: statistics.fmean(row) for name, row in finite.items()}
    least = min(means.values())
    reach = noise.find_half_width(len(next(iter(finite.values()))))
    return [name for name, mean in means.items() if not mean - least > reach]
