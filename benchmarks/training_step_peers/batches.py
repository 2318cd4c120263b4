"""The task of the training-step benchmark: sizes and batches that every peer trains on."""

import dataclasses
import resource

import numpy as np


@dataclasses.dataclass(frozen=True)
class Sizes:
    """An encoder-decoder Transformer and its batches."""

    num_layers: int = 3
    width: int = 512
    intermediate_size: int = 2048
    num_heads: int = 8
    vocab_size: int = 8000
    batch_size: int = 32
    length: int = 48
    dropout_rate: float = 0.1
    label_smoothing: float = 0.1
    learning_rate: float = 5e-4


SIZES = Sizes()
NUM_BATCHES = 8
"""Different batches; they come again and again."""

PAD_ID, EOS_ID = 0, 1


def build() -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns batches of source and target ids, int32 `[batch_size, length]` each, without padding.

    Words are as frequent as in text (Zipf's law), and a target is its source, shifted by one word.
    """
    random = np.random.default_rng(0)
    words = np.arange(3, SIZES.vocab_size)
    chances = 1.0 / (words - 1)
    chances /= chances.sum()
    batches = []
    for _ in range(NUM_BATCHES):
        shape = (SIZES.batch_size, SIZES.length)
        source = random.choice(words, size=shape, p=chances).astype("int32")
        target = np.roll(source, -1, axis=1)
        source[:, -1] = target[:, -1] = EOS_ID
        batches.append((source, target))
    return batches


def count_tokens() -> int:
    """Returns the tokens of a batch, both sides."""
    return 2 * SIZES.batch_size * SIZES.length


def peak_memory() -> float:
    """Returns the most memory this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
