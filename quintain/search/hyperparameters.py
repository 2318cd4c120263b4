"""Types of hyperparameters: sampling, grid points and perturbation."""

import abc
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Final, TypeGuard

import numpy as np

from quintain import errors

_MISSING: Final = object()

DEVIATIONS: Final = {"low": 0.25, "medium": 0.1, "high": 0.05}
"""Deviation of values near a guess, as a part of the range, by the confidence in it."""

SHARES: Final = {"low": 0.5, "medium": 0.75, "high": 0.9}
"""Probability of the value that is guessed, where values have no distance."""


class Hyperparameter(abc.ABC):
    """Range of one hyperparameter."""

    @abc.abstractmethod
    def sample(self, random: np.random.RandomState) -> Any:
        """Draws a value."""

    @abc.abstractmethod
    def grid(self) -> list[Any]:
        """Returns the points of a grid in this dimension.

        Raises:
            ValueError: If the number of points is not known.
        """

    @abc.abstractmethod
    def num_points(self) -> int:
        """Returns the number of points of `grid`.

        Raises:
            ValueError: If it is not known.
        """

    @abc.abstractmethod
    def accept(self, value: Any) -> Any:
        """Returns a value that a user chose, as it is drawn.

        Raises:
            ValueError: Saying what would be expected, if it can't be.
        """

    def sample_near(self, center: Any, confidence: str, random: np.random.RandomState) -> Any:
        """Draws a value near `center`, or anywhere where there is no such thing.

        Args:
            center: A value in the range.
            confidence: One of `DEVIATIONS`.
            random: Draws it.
        """
        del center, confidence
        return self.sample(random)

    def perturb(self, value: Any, random: np.random.RandomState, factor: float) -> Any:
        """Returns a value near `value`, or `value` where there is no such thing.

        Args:
            value: A value in the range.
            random: Draws the direction.
            factor: Change, as a fraction of the value.
        """
        del random, factor
        return value


@dataclasses.dataclass(frozen=True)
class Const(Hyperparameter):
    """The same value in every trial."""

    val: Any

    def sample(self, random: np.random.RandomState) -> Any:
        """Returns the value; nothing is drawn."""
        del random
        return self.val

    def grid(self) -> list[Any]:
        """Returns the one value."""
        return [self.val]

    def num_points(self) -> int:
        """Returns 1."""
        return 1

    def accept(self, value: Any) -> Any:
        """Only the value itself fits."""
        if not _is_same(value, self.val):
            raise ValueError(f"{errors.show(self.val)}, a constant")
        return value


@dataclasses.dataclass(frozen=True)
class Categorical(Hyperparameter):
    """One of several values, each as likely as the others."""

    vals: Sequence[Any]

    def sample(self, random: np.random.RandomState) -> Any:
        """Draws one of the values."""
        return self.vals[int(random.randint(0, len(self.vals)))]

    def sample_near(self, center: Any, confidence: str, random: np.random.RandomState) -> Any:
        """Draws `center` with the probability in `SHARES`, or else one of the values."""
        return center if random.random_sample() < SHARES[confidence] else self.sample(random)

    def grid(self) -> list[Any]:
        """Returns the values in their order."""
        return list(self.vals)

    def num_points(self) -> int:
        """Returns the number of values."""
        return len(self.vals)

    def accept(self, value: Any) -> Any:
        """Only one of the values fits."""
        found = next((one for one in self.vals if _is_same(value, one)), _MISSING)
        if found is _MISSING:
            raise ValueError(f"one of {', '.join(map(errors.show, self.vals))}")
        return found


@dataclasses.dataclass(frozen=True)
class Int(Hyperparameter):
    """A whole number from `minval` to `maxval`, both included."""

    minval: int
    maxval: int
    count: int | None = None

    def sample(self, random: np.random.RandomState) -> int:
        """Draws a number; each is as likely as the others."""
        return int(random.randint(self.minval, self.maxval + 1))

    def sample_near(self, center: int, confidence: str, random: np.random.RandomState) -> int:
        """Draws from a truncated normal distribution, and rounds."""
        ends = (self.minval - 0.5, self.maxval + 0.5)
        drawn = round(_draw_near(center, *ends, DEVIATIONS[confidence], random))
        return max(self.minval, min(self.maxval, drawn))

    def grid(self) -> list[int]:
        """Returns `count` numbers at equal distances, or all if there are fewer."""
        count = self.num_points()
        if count == 1:
            return [_round((self.minval + self.maxval) / 2)]
        step = (self.maxval - self.minval) / (count - 1)
        points = [_round(self.minval + index * step) for index in range(count)]
        return [min(point, self.maxval) for point in points]

    def num_points(self) -> int:
        """Returns `count`, or how many numbers there are, if they are fewer."""
        return min(_require_count(self.count), self.maxval - self.minval + 1)

    def accept(self, value: Any) -> int:
        """Whole numbers from `minval` to `maxval` fit."""
        if _is_number(value) and value == int(value) and self.minval <= value <= self.maxval:
            return int(value)
        raise ValueError(f"a whole number from {self.minval} to {self.maxval}")

    def perturb(self, value: int, random: np.random.RandomState, factor: float) -> int:
        """Multiplies by `1 - factor` and rounds down, or by `1 + factor` and rounds up."""
        decreases = random.random_sample() < 0.5
        moved = math.floor(value * (1 - factor)) if decreases else math.ceil(value * (1 + factor))
        return max(self.minval, min(self.maxval, moved))


@dataclasses.dataclass(frozen=True)
class Double(Hyperparameter):
    """A number from `minval` up to `maxval`."""

    minval: float
    maxval: float
    count: int | None = None

    def sample(self, random: np.random.RandomState) -> float:
        """Draws a number uniformly."""
        return float(random.uniform(self.minval, self.maxval))

    def sample_near(self, center: float, confidence: str, random: np.random.RandomState) -> float:
        """Draws from a truncated normal distribution."""
        return _draw_near(center, self.minval, self.maxval, DEVIATIONS[confidence], random)

    def grid(self) -> list[float]:
        """Returns `count` numbers at equal distances, or the middle for one."""
        return _spread(self.minval, self.maxval, self.num_points())

    def num_points(self) -> int:
        """Returns `count`."""
        return _require_count(self.count)

    def accept(self, value: Any) -> float:
        """Numbers from `minval` to `maxval` fit."""
        return _accept(value, self.minval, self.maxval)

    def perturb(self, value: float, random: np.random.RandomState, factor: float) -> float:
        """Multiplies by `1 - factor` or `1 + factor`."""
        moved = value * (1 - factor if random.random_sample() < 0.5 else 1 + factor)
        return max(self.minval, min(self.maxval, moved))


@dataclasses.dataclass(frozen=True)
class Log(Hyperparameter):
    """A power of `base`, with an exponent from `minval` up to `maxval`."""

    minval: float
    maxval: float
    base: float = 10.0
    count: int | None = None

    def sample(self, random: np.random.RandomState) -> float:
        """Draws the exponent uniformly."""
        return float(self.base ** random.uniform(self.minval, self.maxval))

    def sample_near(self, center: float, confidence: str, random: np.random.RandomState) -> float:
        """Draws the exponent from a truncated normal distribution."""
        exponent = math.log(center, self.base)
        deviation = DEVIATIONS[confidence]
        return float(self.base ** _draw_near(exponent, self.minval, self.maxval, deviation, random))

    def grid(self) -> list[float]:
        """Returns the powers of `count` exponents at equal distances."""
        exponents = _spread(self.minval, self.maxval, self.num_points())
        return [float(self.base**exponent) for exponent in exponents]

    def num_points(self) -> int:
        """Returns `count`."""
        return _require_count(self.count)

    def accept(self, value: Any) -> float:
        """Numbers from the smallest to the largest power fit, not their exponents."""
        return _accept(value, *self.bounds)

    def perturb(self, value: float, random: np.random.RandomState, factor: float) -> float:
        """Multiplies the value, not the exponent, by `1 - factor` or `1 + factor`."""
        moved = value * (1 - factor if random.random_sample() < 0.5 else 1 + factor)
        low, high = self.bounds
        return float(max(low, min(high, moved)))

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest power."""
        low, high = sorted((self.base**self.minval, self.base**self.maxval))
        return low, high


def _is_number(value: Any) -> TypeGuard[float]:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and math.isfinite(value)


def _is_same(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _accept(value: Any, low: float, high: float) -> float:
    # Powers are seldom exact: 10 ** -3 may be a little more than 0.001.
    if _is_number(value) and (
        low <= value <= high or any(math.isclose(value, end) for end in (low, high))
    ):
        return float(min(max(value, low), high))
    raise ValueError(f"a number from {low:g} to {high:g}")


def _draw_near(
    center: float, low: float, high: float, deviation: float, random: np.random.RandomState
) -> float:
    """Draws from a normal distribution, again until it is within the range."""
    while not low <= (drawn := random.normal(center, deviation * (high - low))) <= high:
        pass
    return float(drawn)


def _round(number: float) -> int:
    """Rounds halves away from zero, as people do."""
    return math.floor(number + 0.5) if number >= 0 else math.ceil(number - 0.5)


def _spread(low: float, high: float, count: int) -> list[float]:
    if count == 1:
        return [(low + high) / 2]
    return [float(value) for value in np.linspace(low, high, count)]


def _require_count(count: int | None) -> int:
    if count is None:
        raise ValueError("count: missing; a grid needs the number of points of every range.")
    return count
