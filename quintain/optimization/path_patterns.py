"""Regular expressions that choose weights by their paths, such as `encoder/layer_0/dense/bias`."""

import logging
import math
import re
from collections.abc import Mapping, Sequence

_LOGGER = logging.getLogger(__name__)


def has_match(patterns: Sequence[str] | None, path: str) -> bool:
    """Returns whether one of the expressions is found anywhere in the path of a weight.

    Example:
        >>> has_match(["LayerNorm", "bias"], "encoder/layer_0/dense/bias")
        True
    """
    return any(re.search(pattern, path) for pattern in patterns or ())


def multiply_matching(factors: Mapping[str, float] | None, path: str) -> float:
    """Returns the product of the factors whose expressions are found in the path of a weight.

    Example:
        >>> multiply_matching({"embedding": 8.0, "decoder": 0.5}, "decoder/embedding/table")
        4.0
    """
    found = (factor for pattern, factor in (factors or {}).items() if re.search(pattern, path))
    return math.prod(found, start=1.0)


def warn_if_unused(name: str, patterns: Sequence[str] | None, paths: Sequence[str]) -> None:
    """Warns of a list of expressions that matches no weight at all: most likely it is misspelt."""
    if patterns and paths and not any(has_match(patterns, path) for path in paths):
        _LOGGER.warning(
            "%s: %r matches none of %d weights, such as %r.",
            name,
            list(patterns),
            len(paths),
            paths[0],
        )
