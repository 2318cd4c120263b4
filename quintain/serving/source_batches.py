"""Sources of similar length in batches."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from quintain import errors

MAX_TOKENS: Final = 16_384
"""Most source tokens translated together, padding included."""

_PAD_ID: Final = 0


class SourceTooLongError(errors.DataError):
    """A sentence has more tokens than the model should be asked to read."""

    def __init__(self, place: int, num_tokens: int, limit: int) -> None:
        """Says which sentence, counted from 0, and how long it is."""
        self.place = place
        self.detail = f"has {num_tokens:,} tokens, expected at most {limit:,}"
        super().__init__(
            f"sentence {place + 1}: {self.detail}. Cut it into sentences, or raise "
            "max_source_length."
        )


def cut(
    order: Sequence[int], sources: Sequence[np.ndarray], batch_size: int
) -> Iterator[Sequence[int]]:
    """Yields places in batches, given the longest first; fewer together where they are long."""
    start = 0
    while start < len(order):
        length = len(sources[order[start]])
        size = max(1, min(batch_size, MAX_TOKENS // length))
        yield order[start : start + size]
        start += size


def stack(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Returns rows of ids as `[B, S]` int32, padded with 0."""
    stacked = np.full([len(rows), max(map(len, rows))], _PAD_ID, np.int32)
    for place, row in enumerate(rows):
        stacked[place, : len(row)] = row
    return stacked
