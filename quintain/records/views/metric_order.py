"""Order of trials by a searched metric."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from quintain.records.rows import trial
from quintain.records.views import seeds

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
    measured = [(get_metric(item), item) for item in items]

    def key(pair: tuple[float | None, T]) -> float:
        value = pair[0]
        if value is None or math.isnan(value):
            return math.inf
        return value if smaller_is_better else -value

    return [item for _, item in sorted([pair for pair in measured if pair[0] is not None], key=key)]


def find_best(
    trials: Sequence[trial.TrialRecord], searcher: Mapping[str, Any]
) -> trial.TrialRecord | None:
    """Returns the best trial, or None if none was validated.

    Where finalists were trained with further seeds, it is one of the setting that they chose.
    """
    ranked = seeds.rank_settings(trials, searcher)
    return ranked[0].trials[0] if ranked else None
