"""Order of trials and checkpoints by a metric."""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def rank(
    items: Iterable[T], get_metric: Callable[[T], float | None], *, smaller_is_better: bool
) -> list[T]:
    """Returns the items that have a metric, best first; those that are equal keep their order.

    Metrics that are not numbers are worse than all others.

    Example:
        >>> rank([0.1, None, float("nan"), 0.3], lambda value: value, smaller_is_better=False)
        [0.3, 0.1, nan]
    """
    pairs = [(get_metric(item), item) for item in items]
    measured = [pair for pair in pairs if pair[0] is not None]
    measured.sort(key=lambda pair: to_sort_key(pair[0], smaller_is_better=smaller_is_better))
    return [item for _, item in measured]


def to_sort_key(metric: float | None, *, smaller_is_better: bool) -> float:
    """Returns a metric of which smaller is better; what is no number is the worst."""
    if metric is None or math.isnan(metric):
        return math.inf
    return metric if smaller_is_better else -metric
