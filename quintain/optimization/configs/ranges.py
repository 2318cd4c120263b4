"""Numeric types of config fields, with their ranges.

Models compute in float32, so that a number beyond its range is none: "finite" and "greater than 0"
are what they are in float32. Infinity stands in no field; where there is no limit, the field is
None. Counts are far below 64 bits, so that sums of them fit.
"""

from typing import Annotated, Final, TypeAlias

from annotated_types import Ge, Gt, Le, Lt

LARGEST: Final = 3.4e38
"""Largest finite number."""

SMALLEST: Final = 1.2e-38
"""Smallest number greater than 0."""

MAX_COUNT: Final = 10**15
"""Most steps, batches or examples."""

NonNegative: TypeAlias = Annotated[float, Ge(0), Le(LARGEST)]
"""A finite number >= 0."""

Positive: TypeAlias = Annotated[float, Ge(SMALLEST), Le(LARGEST)]
"""A finite number > 0."""

NonPositive: TypeAlias = Annotated[float, Ge(-LARGEST), Le(0)]
"""A finite number <= 0."""

Negative: TypeAlias = Annotated[float, Ge(-LARGEST), Le(-SMALLEST)]
"""A finite number < 0."""

Finite: TypeAlias = Annotated[float, Ge(-LARGEST), Le(LARGEST)]
"""Any finite number."""

Fraction: TypeAlias = Annotated[float, Ge(0), Lt(1)]
"""A number in `[0, 1)`."""

UnitInterval: TypeAlias = Annotated[float, Ge(0), Le(1)]
"""A number in `[0, 1]`."""

PositiveShare: TypeAlias = Annotated[float, Ge(SMALLEST), Le(1)]
"""A number in `(0, 1]`."""

OpenUnitInterval: TypeAlias = Annotated[float, Ge(SMALLEST), Lt(1)]
"""A number in `(0, 1)`."""

Steps: TypeAlias = Annotated[int, Ge(0), Le(MAX_COUNT)]
"""A number of steps, or none."""

Period: TypeAlias = Annotated[int, Gt(0), Le(MAX_COUNT)]
"""A number of steps by which something is divided."""

Offset: TypeAlias = Annotated[int, Ge(-MAX_COUNT), Le(MAX_COUNT)]
"""A step from which is counted; before the first one if negative."""

Size: TypeAlias = Annotated[int, Gt(0), Lt(2**31)]
"""A size of a tensor."""
