"""States that a trial's machine keeps: steps, saved states, validations."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from quintain.records.rows import workload

NO_SLOTS: Final[frozenset[int]] = frozenset()
"""One for all trials: each empty set takes 216 bytes."""


@dataclasses.dataclass(frozen=True)
class Step:
    """The next piece of work of a trial; a `Workload` without names."""

    kind: workload.WorkloadKind
    """What to do."""

    num_batches: int = 0
    """Batches to train on."""


@dataclasses.dataclass(slots=True)
class Saved:
    """A state that was saved, to which the trial can go back."""

    uuid: str
    """The checkpoint."""

    at: int
    """Batches that it had been trained on."""

    validated_at: int | None
    """Batches at its newest validation then."""

    cursor: int
    """The first operation that was not done then."""


class Validation(NamedTuple):
    """One pass through the validation data."""

    at: int
    """Batches that the trial had been trained on."""

    metric: float
    """The searched metric as it was measured."""

    further: tuple[float, ...] = ()
    """The other metrics that decide."""


def find_best(validations: Iterable[Validation], *, smaller_is_better: bool) -> float | None:
    """Returns the best value of the searched metric; not a number only if all are."""
    metrics = [each.metric for each in validations]
    numbers = [metric for metric in metrics if not math.isnan(metric)]
    if not numbers:
        return metrics[0] if metrics else None
    return min(numbers) if smaller_is_better else max(numbers)
