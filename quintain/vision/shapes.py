"""Drawn shapes: images with classes that need no file and no package."""

from typing import Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths

PREFIX: Final = "drawn:"
"""Start of an `input_path` that names images to draw."""

CLASSES: Final = ("bar", "circle", "cross", "ring", "square", "triangle")
"""The shapes."""

SIZE: Final = 24
"""Height and width of an image."""

NUM_IMAGES: Final = {"train": 3_600, "validation": 600}
"""Images of each split, as many of each class."""


def draw(name: str) -> tuple[list[bytes], np.ndarray]:
    """Draws the images of `drawn:shapes/train` or `drawn:shapes/validation`, the same each time.

    Each has one shape in a place, a size, a direction and colours of its own, under noise.

    Returns:
        PNGs of 24 by 24 colour pixels, and their classes `[N]` int32.

    Raises:
        ConfigError: If there is nothing of this name.
    """
    known = [f"{PREFIX}shapes/{split}" for split in NUM_IMAGES]
    if name not in known:
        raise errors.ConfigError(
            f"input_path: got {name!r}, expected {' or '.join(known)}.{errors.suggest(name, known)}"
        )
    split = name.rpartition("/")[2]
    random = np.random.RandomState(list(NUM_IMAGES).index(split))
    labels = np.arange(NUM_IMAGES[split], dtype=np.int32) % len(CLASSES)
    return [_draw_one(random, CLASSES[label]) for label in labels], labels


def write(directory: str) -> None:
    """Writes the images as `train/CLASS/NUMBER.png` and `validation/CLASS/NUMBER.png`."""
    for split in NUM_IMAGES:
        images, labels = draw(f"{PREFIX}shapes/{split}")
        for name in CLASSES:
            file_io.makedirs(file_paths.join(directory, split, name))
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            path = file_paths.join(directory, split, CLASSES[label], f"{number:04}.png")
            with file_io.open(path, "wb") as file:
                file.write(image)


def _draw_one(random: np.random.RandomState, shape: str) -> bytes:
    radius = random.uniform(6.0, 10.0)
    center = random.uniform(radius + 1, SIZE - radius - 1, 2)
    angle = random.uniform(0, 2 * np.pi)
    offset = np.mgrid[:SIZE, :SIZE].T - center  # [H, W, 2]
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x, y = np.moveaxis(offset @ turn / radius, -1, 0)
    far, near = np.maximum(abs(x), abs(y)), np.minimum(abs(x), abs(y))
    distance = np.hypot(x, y)
    inside = {
        "bar": (abs(x) < 1) & (abs(y) < 0.3),
        "circle": distance < 0.9,
        "cross": (far < 1) & (near < 0.3),
        "ring": (distance < 1) & (distance > 0.6),
        "square": far < 0.75,
        "triangle": (y > -0.5) & (abs(x) * np.sqrt(3) < 1 - y),
    }[shape]
    colors = random.uniform(0, 110, 3), random.uniform(145, 255, 3)
    front, back = colors if random.rand() < 0.5 else colors[::-1]
    image = np.where(inside[..., np.newaxis], front, back) + random.normal(0, 10, [SIZE, SIZE, 3])
    png: bytes = tf.io.encode_png(np.clip(image, 0, 255).astype(np.uint8)).numpy()
    return png
