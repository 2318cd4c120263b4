"""Random states of Python and NumPy: set from a seed, kept in checkpoints."""

import contextlib
import json
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np


def set_seed(seed: int) -> None:
    """Seeds Python's and NumPy's random numbers.

    Args:
        seed: Below 2 ** 32.
    """
    random.seed(seed)
    np.random.seed(seed)


@contextlib.contextmanager
def seed_scope(seed: int) -> Iterator[None]:
    """Seeds both inside this block, and puts back their states after it."""
    python, numpy = random.getstate(), np.random.get_state()
    set_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def save(path: pathlib.Path) -> None:
    """Writes both states as JSON."""
    name, keys, position, has_gauss, gauss = np.random.get_state()
    state = {
        "python": random.getstate(),
        "numpy": [name, np.asarray(keys).tolist(), position, has_gauss, gauss],
    }
    path.write_text(json.dumps(state))


def restore(path: pathlib.Path) -> None:
    """Sets the states that `save` wrote."""
    state: dict[str, Any] = json.loads(path.read_text())
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, cached))
