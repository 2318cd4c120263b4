"""The Pareto front: what is best in several metrics at once."""

import math
from collections.abc import Sequence
from typing import Any


def find_front(values: Sequence[Sequence[Any]], smaller_is_better: Sequence[bool]) -> list[int]:
    """Returns the rows than which no other one is better in one metric and as good in all others.

    Equal rows are all there. Rows in which a value is missing or not a finite number are not.

    Args:
        values: For each row the values of the metrics; None where there is none.
        smaller_is_better: For each metric, whether smaller values are better.

    Returns:
        The numbers of the rows, the best in the first metric first.

    Example:
        >>> find_front([(1, 5), (2, 4), (2, 6), (3, None), (1, 5)], [True, True])
        [0, 4, 1]
    """
    points = []
    for row, one in enumerate(values):
        if all(isinstance(value, int | float) and math.isfinite(value) for value in one):
            signs = zip(one, smaller_is_better, strict=True)
            points.append((tuple(value if smaller else -value for value, smaller in signs), row))
    front: list[tuple[tuple[float, ...], int]] = []
    # A row can be dominated only by one that is not after it in lexical order.
    for point, row in sorted(points):
        if not any(_dominates(other, point) for other, _ in front):
            front.append((point, row))
    return [row for _, row in front]


def _dominates(other: tuple[float, ...], point: tuple[float, ...]) -> bool:
    return other != point and all(a <= b for a, b in zip(other, point, strict=True))
