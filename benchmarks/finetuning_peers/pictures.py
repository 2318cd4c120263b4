"""Images and sizes of the comparison of image classification: the same for both peers."""

import pathlib
import tempfile

import numpy as np
import tensorflow as tf

SIZE, BATCH_SIZE, NUM_CLASSES, NUM_IMAGES = 64, 32, 4, 1_024
WIDTH, NUM_STAGES, BLOCKS_PER_STAGE = 16, 3, 2
LEARNING_RATE = 1e-3


def write() -> str:
    """Writes JPEGs of stripes under noise in a folder for each class, and returns the folder."""
    folder = pathlib.Path(tempfile.mkdtemp())
    random = np.random.default_rng(0)
    for number in range(NUM_IMAGES):
        label = number % NUM_CLASSES
        rows, columns = np.mgrid[:SIZE, :SIZE]
        wave = np.sin((rows * (label & 1) + columns * (label >> 1)) / 4 + random.uniform(0, 6))
        image = 128 + 80 * wave[..., np.newaxis] + random.normal(0, 30, (SIZE, SIZE, 3))
        path = folder / f"class_{label}" / f"{number:04}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(tf.io.encode_jpeg(np.clip(image, 0, 255).astype(np.uint8)).numpy())
    return str(folder)
