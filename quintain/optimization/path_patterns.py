"""Regular expressions that choose weights by their paths, such as `encoder/layer_0/dense/bias`."""

import logging
import re
from collections.abc import Sequence

_LOGGER = logging.getLogger(__name__)


def has_match(patterns: Sequence[str] | None, path: str) -> bool:
    """Returns whether one of the expressions is found anywhere in the path of a weight.

    Example:
        >>> has_match(["LayerNorm", "bias"], "encoder/layer_0/dense/bias")
        True
    """
    return any(re.search(pattern, path) for pattern in patterns or ())


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
