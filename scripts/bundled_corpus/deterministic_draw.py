"""Random choices that are the same on every machine and in every version of Python."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Draws numbers and items from a fixed stream.

    Only `random.Random.random()` is used: Python promises its stream for a given integer seed, but
    not how `choice`, `sample` and `shuffle` use it.

    Example:
        >>> draw = Draw(seed=0)
        >>> [draw.between(1, 6) for _ in range(5)]
        [6, 5, 3, 2, 4]
    """

    def __init__(self, seed: int) -> None:
        self._uniform = random.Random(seed).random

    def below(self, limit: int) -> int:
        """Returns an integer in `[0, limit)`."""
        return int(self._uniform() * limit)

    def between(self, low: int, high: int) -> int:
        """Returns an integer in `[low, high]`."""
        return low + int(self._uniform() * (high - low + 1))

    def one(self, items: Sequence[T]) -> T:
        """Returns one of the items."""
        return items[int(self._uniform() * len(items))]

    def chance(self, probability: float) -> bool:
        """Returns true with the given probability."""
        return self._uniform() < probability
