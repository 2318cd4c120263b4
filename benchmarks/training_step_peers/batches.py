"""The task of the training-step benchmark: sizes and batches that every peer trains on."""

import dataclasses
import math
import pathlib
import sys

import numpy as np

# The scripts of the peers run where they lie; what all of them share lies beside their directory.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "step_peers"))

import measuring


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
    epsilon: float = 1e-9


TINY = Sizes(
    num_layers=2,
    width=64,
    intermediate_size=128,
    num_heads=4,
    vocab_size=500,
    batch_size=4,
    length=24,
    dropout_rate=0.0,
    learning_rate=2e-3,
)

SIZES = TINY if measuring.IS_CHECK else Sizes()
NUM_BATCHES = 8
"""Different batches; they come again and again."""

PAD_ID, EOS_ID = 0, 1


def build() -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns batches of source and target ids, int32 `[batch_size, length]` each, without padding.

    Words are as frequent as in text (Zipf's law), and a target is its source, shifted by one word.
    """
    random = np.random.default_rng(0)
    batches = []
    for _ in range(NUM_BATCHES):
        shape = (SIZES.batch_size, SIZES.length)
        source = measuring.draw_words(random, 3, SIZES.vocab_size, shape).astype("int32")
        target = np.roll(source, -1, axis=1)
        source[:, -1] = target[:, -1] = EOS_ID
        batches.append((source, target))
    return batches


def count_tokens() -> int:
    """Returns the tokens of a batch, both sides."""
    return 2 * SIZES.batch_size * SIZES.length


def spread_smoothing() -> float:
    """Returns the label smoothing for losses that spread it over all words, the right one too.

    Ours spreads it over the others.
    """
    return SIZES.label_smoothing * SIZES.vocab_size / (SIZES.vocab_size - 1)


def smoothing_entropy() -> float:
    """Returns the entropy of smoothed targets, which ours subtracts from the loss."""
    on, off = 1 - SIZES.label_smoothing, SIZES.label_smoothing / (SIZES.vocab_size - 1)
    return -(on * math.log(on) + (SIZES.vocab_size - 1) * off * math.log(off))
