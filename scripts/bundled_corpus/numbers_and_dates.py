"""A bundled English-German corpus of numbers, dates, times, prices and measures.

The grammar draws the same sentences on every machine and Python version.

Every English sentence has exactly one German translation. Where German has a choice, the English
shows which is meant ("a hundred and one" is "hunderteins", "one hundred and one"
"einhunderteins"). No English sentence is in two splits.
"""

import functools
from collections.abc import Callable

from bundled_corpus import deterministic_draw, number_phrases, time_phrases

NUM_TRAIN_PAIRS = 24_000
NUM_VALIDATION_PAIRS = 500
NUM_TEST_PAIRS = 1_000

Pair = tuple[str, str]

_SEED = 1987
# Of every 51 sentences two are for testing and one for validation, spread evenly, because rare
# kinds of sentences run out and come early.
_PERIOD, _TEST_SLOTS, _VALIDATION_SLOTS = 51, (0, 25), (12,)

_KINDS: tuple[tuple[int, Callable[[deterministic_draw.Draw], Pair]], ...] = (
    (20, number_phrases.draw_cardinal),
    (9, number_phrases.draw_counted),
    (5, number_phrases.draw_ordinal),
    (5, number_phrases.draw_decimal),
    (4, number_phrases.draw_fraction),
    (5, number_phrases.draw_sum),
    (11, number_phrases.draw_price),
    (9, number_phrases.draw_measure),
    (6, time_phrases.draw_year),
    (18, time_phrases.draw_date),
    (15, time_phrases.draw_clock_time),
    (6, time_phrases.draw_appointment),
    (5, time_phrases.draw_duration),
)


def train_pairs() -> list[Pair]:
    """Returns the training split: `NUM_TRAIN_PAIRS` pairs (English, German).

    Example:
        >>> pairs = dict(train_pairs())
        >>> len(pairs)
        24000
    """
    reserved = (*_TEST_SLOTS, *_VALIDATION_SLOTS)
    return [pair for i, pair in enumerate(_all_pairs()) if i % _PERIOD not in reserved]


def validation_pairs() -> list[Pair]:
    """Returns the validation split: `NUM_VALIDATION_PAIRS` pairs (English, German)."""
    return [pair for i, pair in enumerate(_all_pairs()) if i % _PERIOD in _VALIDATION_SLOTS]


def test_pairs() -> list[Pair]:
    """Returns the test split: `NUM_TEST_PAIRS` pairs (English, German)."""
    return [pair for i, pair in enumerate(_all_pairs()) if i % _PERIOD in _TEST_SLOTS]


@functools.cache
def _all_pairs() -> tuple[Pair, ...]:
    draw = deterministic_draw.Draw(_SEED)
    kinds = [kind for weight, kind in _KINDS for _ in range(weight)]
    targets: dict[str, str] = {}
    num_pairs = NUM_TRAIN_PAIRS + NUM_VALIDATION_PAIRS + NUM_TEST_PAIRS
    while len(targets) < num_pairs:
        source, target = draw.one(kinds)(draw)
        known = targets.setdefault(source, target)
        assert known == target, f"Two translations of {source!r}: {known!r} and {target!r}."
    return tuple(targets.items())
