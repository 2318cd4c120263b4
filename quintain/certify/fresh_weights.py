"""Distributions of fresh weights of two models, and the initialisers that they look like."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

_MOST_DISTANT: Final = 2.5
"""Largest distance of Kolmogorov and Smirnov; equal distributions exceed it once in 100,000."""

_UNIFORM, _NORMAL, _TRUNCATED = 1.8, 3.0, 2.37
"""Kurtoses."""


def find_difference(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> str:
    """Returns which distributions the samples of a variable have, if they differ; else empty."""
    first, second = (
        np.sort(np.concatenate([one.reshape(-1) for one in each])) for each in (old, new)
    )
    points = np.concatenate([first, second])
    below = [
        np.searchsorted(one, points + 1e-7, side="right") / len(one) for one in (first, second)
    ]
    distance = float(np.max(np.abs(below[0] - below[1]))) * math.sqrt(len(first) / 2)
    if distance < _MOST_DISTANT and (np.ptp(first) > 0) == (np.ptp(second) > 0):
        constant = np.ptp(first) == 0 and abs(float(first[0] - second[0])) > 1e-6
        if not constant:
            return ""
    shape = new[0].shape
    return f"{_guess(first, shape)} in OLD, {_guess(second, shape)} in NEW"


def _guess(values: np.ndarray, shape: Sequence[int]) -> str:
    if np.ptp(values) == 0:
        return {0.0: "zeros", 1.0: "ones"}.get(float(values[0]), f"constant {values[0]:.4g}")
    spread = float(values.std())
    centred = (values - values.mean()) / spread
    kurtosis = float(np.mean(centred**4))
    name, known, _ = min(
        _list_known(shape), key=lambda one: abs(math.log(one[1] / spread)) + abs(one[2] - kurtosis)
    )
    if abs(math.log(known / spread)) < max(0.1, 2 / math.sqrt(len(values))):
        return f"{name} (deviation {spread:.3g})"
    return f"deviation {spread:.3g}"


def _list_known(shape: Sequence[int]) -> Iterator[tuple[str, float, float]]:
    """Yields names, deviations and kurtoses of initialisers for a shape."""
    places = math.prod(shape[:-2])
    inputs = places * shape[-2] if len(shape) > 1 else shape[-1]
    outputs = places * shape[-1]
    for name, variance in (
        ("glorot", 2 / (inputs + outputs)),
        ("he", 2 / inputs),
        ("lecun", 1 / inputs),
    ):
        yield f"{name}_uniform", math.sqrt(variance), _UNIFORM
        yield f"{name}_normal", math.sqrt(variance), _TRUNCATED
    yield "random_normal", 0.05, _NORMAL
    yield "truncated_normal", 0.02 * 0.88, _TRUNCATED
    yield "truncated_normal", 0.05 * 0.88, _TRUNCATED
    yield "random_normal", 0.01, _NORMAL
    yield "random_normal", 1.0, _NORMAL
    yield "random_uniform", 0.05 / math.sqrt(3), _UNIFORM
    yield "orthogonal", 1 / math.sqrt(max(shape[-1], inputs)), _NORMAL
