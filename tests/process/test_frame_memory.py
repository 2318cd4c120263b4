"""Calls over the end of a block of frames cost nothing where there is room."""

import resource
import sys

import pytest

from quintain.process import frame_memory

_CALLS = 200
# What other threads map meanwhile is not of these calls.
_WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


def _nothing():
    pass


# So that its frame does not fit into what one of the frames below leaves of a block.
_nothing.__code__ = _nothing.__code__.replace(co_stacksize=100)


def _count_faults(depth):
    """Returns the pages that 200 calls have mapped, made below so many other frames."""
    if depth:
        return _count_faults(depth - 1)
    before = resource.getrusage(_WHOSE).ru_minflt
    for _ in range(_CALLS):
        _nothing()
    return resource.getrusage(_WHOSE).ru_minflt - before


def _find_most_faults():
    # A block of 16 KiB holds less than 200 frames of ten words and more.
    return max(_count_faults(depth) for depth in range(200))


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="CPython's frames")
def test_calls_map_no_memory_again_and_again():
    assert frame_memory.call_with_room(_find_most_faults) < _CALLS / 2


def test_what_is_called_returns_raises_and_recurses_as_ever():
    assert frame_memory.call_with_room(lambda: frame_memory.call_with_room(lambda: 3)) == 3
    with pytest.raises(ZeroDivisionError):
        frame_memory.call_with_room(lambda: 1 // 0)
    with pytest.raises(RecursionError):
        frame_memory.call_with_room(lambda: _count_faults(sys.getrecursionlimit()))
