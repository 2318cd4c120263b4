"""Curves: one metric of a trial, thinned out to few points.

A curve of N points keeps those whose number (from 0) is a multiple of its stride, and the newest.
The stride is the smallest power of 2 that leaves no more than `MAX_POINTS`. So what is kept depends
on the points alone, not on how many of them came at a time.
"""

import array
import dataclasses
import math
import sys
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from quintain.records.rows import codec, metric

MAX_POINTS: Final = 128
"""Points of a curve at most."""

POINT_BYTES: Final = 24
"""Bytes of a point."""

Numbers: TypeAlias = "array.array[float]"

Point: TypeAlias = tuple[float, float, float]
"""Batches, value, and seconds since the epoch."""

Metric: TypeAlias = tuple[metric.MetricGroup, str]
"""Group and name."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """One metric of one trial."""

    experiment_id: int
    trial_id: int
    group: metric.MetricGroup
    """What it was measured on."""

    name: str
    num_points: int = 0
    """How often it was measured; `points` has fewer if this is more than `MAX_POINTS`."""

    last: float = math.nan
    min: float = math.nan
    """Smallest value; not a number if there is none."""

    max: float = math.nan
    """Largest value; not a number if there is none."""

    last_batches: int = -1
    """Batches that the trial had trained on at the newest point."""

    points: bytes = b""
    """The points, as `unpack` reads them; empty where they were not asked for."""

    @property
    def key(self) -> tuple[int, int, metric.MetricGroup, str]:
        """Key of the curve among all others."""
        return self.experiment_id, self.trial_id, self.group, self.name

    @property
    def is_whole(self) -> bool:
        """True if there are as many points as there must be."""
        return len(self.points) == POINT_BYTES * count_kept(self.num_points)

    @property
    def _is_in_order(self) -> bool:
        """True if points stay in the order in which they came, not in that of batches.

        That a trial is rolled back is no news of its machine.
        """
        return self.group is metric.MetricGroup.SYSTEM

    def may_extend(self, points: Iterable[Point]) -> bool:
        """Returns whether points belong to the end of the curve, not between those that it has."""
        return self._is_in_order or min(point[0] for point in points) >= self.last_batches

    def extend(self, points: Iterable[Point]) -> "Curve":
        """Returns the curve with new points, at least one, which `may_extend` it."""
        new = list(points) if self._is_in_order else sorted(points, key=lambda point: point[0])
        num_points = self.num_points + len(new)
        former_stride, stride = find_stride(self.num_points), find_stride(num_points)
        # The newest point goes, unless it is one that the stride keeps.
        num_former = -(-self.num_points // former_stride)
        packed = []
        for former, numbers in zip(_read(self.points), zip(*new, strict=True), strict=True):
            column = former[: num_former : stride // former_stride]
            column.extend(numbers[-self.num_points % stride :: stride])
            if (num_points - 1) % stride:
                column.append(numbers[-1])
            packed.append(_to_little_endian(column).tobytes())
        values = [self.min, self.max, *(value for _, value, _ in new)]
        values = [value for value in values if value == value]
        return dataclasses.replace(
            self,
            num_points=num_points,
            last=new[-1][1],
            min=min(values, default=math.nan),
            max=max(values, default=math.nan),
            last_batches=int(new[-1][0]),
            points=b"".join(packed),
        )


def find_stride(num_points: int) -> int:
    """Returns the distance of the points that are kept of so many."""
    stride = 1
    while num_points - 1 > (MAX_POINTS - 1) * stride:
        stride *= 2
    return stride


def count_kept(num_points: int) -> int:
    """Returns how many of so many points are kept."""
    return -(-(num_points - 1) // find_stride(num_points)) + 1


def unpack(points: bytes) -> tuple[list[float], list[float], list[float]]:
    """Returns the batches, values and times of a curve's points.

    Args:
        points: All batches, then all values, then all times, as little-endian float64.

    Raises:
        ValueError: If they are damaged.

    Example:
        >>> unpack(Curve(1, 1, "training", "loss").extend([(10, 0.5, 1.0), (20, 0.25, 2.0)]).points)
        ([10.0, 20.0], [0.5, 0.25], [1.0, 2.0])
    """
    batches, values, times = _read(points)
    return batches.tolist(), values.tolist(), times.tolist()


def _read(points: bytes) -> tuple[Numbers, Numbers, Numbers]:
    count, rest = divmod(len(points), POINT_BYTES)
    if rest:
        raise ValueError(f"Points of a curve have {POINT_BYTES} bytes each, got {len(points)}.")
    numbers = _to_little_endian(array.array("d", points))
    return numbers[:count], numbers[count : 2 * count], numbers[2 * count :]


def _to_little_endian(numbers: Numbers) -> Numbers:
    """Returns numbers whose bytes are, or were, in the order in which they are kept."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def collect(rows: Iterable[metric.MetricRow]) -> dict[int, dict[Metric, list[Point]]]:
    """Returns the points in rows of metrics, by trial and metric."""
    found: dict[int, dict[Metric, list[Point]]] = {}
    for row in rows:
        of_trial = found.setdefault(row.trial_id, {})
        for name, value in row.metrics.items():
            number = value if type(value) is float else to_number(value)
            if number is not None:
                of_trial.setdefault((row.group, name), []).append(
                    (row.total_batches, number, row.time)
                )
    return found


def build(experiment_id: int, rows: Iterable[metric.MetricRow]) -> list[Curve]:
    """Returns the curves of all metrics of an experiment that are numbers."""
    return [
        Curve(experiment_id, trial_id, *which).extend(points)
        for trial_id, of_trial in collect(rows).items()
        for which, points in of_trial.items()
    ]


def to_number(value: Any) -> float | None:
    """Returns the number that a metric is, or None for lists, texts and all else."""
    if isinstance(value, str):
        return codec.NOT_FINITE.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
