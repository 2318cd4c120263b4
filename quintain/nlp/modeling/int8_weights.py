"""Weights as 8-bit integers with a scale for each channel.

Shapes:
    I  inputs of a matrix
    O  outputs of a matrix
"""

from typing import Final, NamedTuple

import numpy as np

_LARGEST: Final = 127


class Quantized(NamedTuple):
    """Integers, and what they are multiplied by."""

    values: np.ndarray
    """int8, from -127 to 127."""

    scales: np.ndarray
    """float32; of size 1 along all but the channels' axis."""

    def restore(self) -> np.ndarray:
        """Returns the float32 numbers that they stand for."""
        return self.values.astype(np.float32) * self.scales


def quantize(weights: np.ndarray, channel_axis: int) -> Quantized:
    """Rounds a matrix to integers; each channel's largest number stays what it is.

    Args:
        weights: `[I, O]`, or `[O, I]`.
        channel_axis: Which of its axes is O.

    Example:
        >>> found = quantize(np.array([[1.0, -0.2], [0.5, 0.1]]), channel_axis=1)
        >>> found.values.tolist()
        [[127, -127], [64, 64]]
    """
    axes = tuple(axis for axis in range(weights.ndim) if axis != channel_axis)
    most = np.max(np.abs(weights), axis=axes, keepdims=True)
    scales = np.where(most > 0, most / _LARGEST, 1.0).astype(np.float32)
    return Quantized(np.round(weights / scales).astype(np.int8), scales)
