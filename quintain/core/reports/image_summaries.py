"""Images among the results of an evaluation, shown by TensorBoard."""

from collections.abc import Mapping
from typing import Any, Final

import tensorflow as tf

IMAGES_KEY: Final = "visualization"
"""Where a task puts images among the metrics: a mapping from names to images."""

MAX_IMAGES: Final = 16
"""Images of a name that are written."""


def take_images(logs: dict[str, Any]) -> Mapping[str, Any]:
    """Removes the images from the results of an evaluation, and returns them."""
    images: Mapping[str, Any] = logs.pop(IMAGES_KEY, {})
    return images


def write_images(images: Mapping[str, Any], step: int) -> None:
    """Writes images with the summary writer in force.

    Args:
        images: By name: `[N, H, W, C]` uint8, or float in `[0, 1]`, with 1, 3 or 4 channels.
        step: Step that was evaluated.
    """
    for name, batch in images.items():
        tf.summary.image(name, batch, step=step, max_outputs=MAX_IMAGES)
