"""Keeps oneDNN, with which TensorFlow multiplies on processors, from writing past its memory.

oneDNN has a cache of compiled products for all threads. A thread that finds one there asks its own
description of the product how much scratch memory it needs; what another thread compiled may need
more (TensorFlow 2.21, oneDNN 3.7.3: products that copy their first matrix). Then the heap is
damaged, and the process dies some time later: in one run of a small model in ten to thirty. Without
the cache each thread compiles its own: TensorFlow keeps them for each thread anyway.
"""

import os
from typing import Final

CAPACITY_VARIABLE: Final = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
"""How many compiled products oneDNN's cache holds. It is read before the first of them."""


def turn_cache_off() -> None:
    """Has oneDNN share no compiled products among threads, unless the environment says how many."""
    os.environ.setdefault(CAPACITY_VARIABLE, "0")
