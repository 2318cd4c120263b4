"""Configs of single hyperparameters, chosen by `type`."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal

from annotated_types import Ge, Gt, Le, Len

from quintain import errors
from quintain.config import base_config

MAX_GRID_POINTS: Final = 2000
"""Largest grid that may be searched."""

Whole = Annotated[int, Ge(-(2**53)), Le(2**53)]
"""A whole number that is exact as a floating-point number, too; estimators and JSON need that."""

Number = Annotated[float, Ge(-1e300), Le(1e300)]
"""A number whose double is finite, too."""

Count = Annotated[int, Gt(0)]


@dataclasses.dataclass
class PriorConfig(base_config.Config):
    """A user's guess of the best value; half of the points that are drawn are near it."""

    center: object = None
    """The value, which the first trial has."""

    confidence: Literal["low", "medium", "high"] = "medium"
    """How near: a deviation of 25, 10 or 5 % of the range; of categories, the value itself with 50,
    75 or 90 %."""


@dataclasses.dataclass
class HyperparameterConfig(base_config.Config):
    """Base config of all hyperparameters."""

    TYPE: ClassVar[str] = ""
    """Value of `type` that chooses the kind."""


@dataclasses.dataclass(kw_only=True)
class ConstConfig(HyperparameterConfig):
    """The same value in every trial."""

    TYPE = "const"

    val: object
    """The value."""


@dataclasses.dataclass(kw_only=True)
class CategoricalConfig(HyperparameterConfig):
    """One of several values."""

    TYPE = "categorical"

    vals: Annotated[list[object], Len(1)]
    """The values."""

    prior: PriorConfig | None = None
    """Guess of the best value."""


@dataclasses.dataclass(kw_only=True)
class _RangeConfig(HyperparameterConfig):
    """A range."""

    minval: Any
    """Lower end."""

    maxval: Any
    """Upper end."""

    count: Count | None = None
    """Points of a grid."""

    prior: PriorConfig | None = None
    """Guess of the best value."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a range that is empty."""
        if not self.minval < self.maxval:
            yield "maxval", f"got {self.maxval}, expected more than minval={self.minval}."


@dataclasses.dataclass(kw_only=True)
class IntConfig(_RangeConfig):
    """A whole number from `minval` to `maxval`, both included."""

    TYPE = "int"

    minval: Whole
    """Smallest number."""

    maxval: Whole
    """Largest number."""


@dataclasses.dataclass(kw_only=True)
class DoubleConfig(_RangeConfig):
    """A number from `minval` up to `maxval`."""

    TYPE = "double"

    minval: Number
    """Lower end."""

    maxval: Number
    """Upper end."""


@dataclasses.dataclass(kw_only=True)
class LogConfig(_RangeConfig):
    """A power of `base`, with an exponent from `minval` up to `maxval`."""

    TYPE = "log"

    minval: Number
    """Smallest exponent."""

    maxval: Number
    """Largest exponent."""

    base: Annotated[float, Gt(0), Le(1e300)] = 10.0
    """The number whose powers are taken."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields ends that are no numbers greater than 0."""
        yield from super().check()
        if self.base == 1:
            yield "base", "got 1, expected another number: all powers of 1 are 1."
        for name in ("minval", "maxval"):
            exponent = getattr(self, name)
            if abs(exponent * math.log10(self.base)) > 300:
                yield (
                    name,
                    f"got {exponent}, expected an exponent: {self.base} to the power of {exponent} "
                    "is beyond the range of numbers, 1e-300 to 1e300.",
                )


KINDS: Final[dict[str, type[HyperparameterConfig]]] = {
    kind.TYPE: kind for kind in (ConstConfig, CategoricalConfig, IntConfig, DoubleConfig, LogConfig)
}
"""Configs by `type`."""


def parse(content: dict[str, Any]) -> HyperparameterConfig:
    """Reads one hyperparameter.

    Raises:
        ConfigError: Listing all that is wrong.
    """
    name = content["type"]
    if not isinstance(name, str) or name not in KINDS:
        hint = errors.suggest(name, KINDS) if isinstance(name, str) else ""
        message = f"got {errors.show(name)}, expected one of {', '.join(map(repr, KINDS))}.{hint}"
        raise errors.ConfigError.from_problems([errors.Problem("type", message)])
    config = KINDS[name]({field: value for field, value in content.items() if field != "type"})
    config.validate()
    return config
