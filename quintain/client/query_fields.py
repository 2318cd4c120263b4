"""Parameters of requests as they stand in an address."""

from collections.abc import Iterable, Mapping
from typing import Any


def list_fields(query: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yields the parameters of a query: lists one by one, and nothing for None.

    Example:
        >>> list(list_fields({"state": ["A", "B"], "limit": None, "all": True}))
        [('state', 'A'), ('state', 'B'), ('all', 'true')]
    """
    for name, value in query.items():
        parts = value if isinstance(value, list | tuple) else [value]
        for part in parts:
            if part is not None:
                yield name, str(part).lower() if isinstance(part, bool) else str(part)
