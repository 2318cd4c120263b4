"""The task of the BERT-step benchmark: sizes and batches that every peer trains on."""

import dataclasses
import pathlib
import sys

import numpy as np

# The scripts of the peers run where they lie; what all of them share lies beside their directory.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "step_peers"))

import measuring


@dataclasses.dataclass(frozen=True)
class Sizes:
    """BERT-base and its batches."""

    num_layers: int = 12
    width: int = 768
    intermediate_size: int = 3072
    num_heads: int = 12
    vocab_size: int = 30_522
    num_positions: int = 512
    batch_size: int = 8
    length: int = 128
    num_masked: int = 20
    dropout_rate: float = 0.1
    initializer_range: float = 0.02
    norm_epsilon: float = 1e-12
    learning_rate: float = 1e-5  # as in a warm-up; with 1e-4 losses rise at first
    weight_decay: float = 0.01
    epsilon: float = 1e-8


TINY = Sizes(
    num_layers=2,
    width=64,
    intermediate_size=128,
    num_heads=4,
    vocab_size=1500,
    num_positions=40,
    batch_size=4,
    length=32,
    num_masked=5,
    dropout_rate=0.0,
    learning_rate=2e-3,
    weight_decay=1.0,  # strong, so that one that is applied in another way is seen
    # TensorFlow and Keras add it to the root of the second moment before its bias is corrected,
    # PyTorch after it: with 1e-6 their losses differ by 0.3 % after ten steps.
    epsilon=1e-10,
)

SIZES = TINY if measuring.IS_CHECK else Sizes()
NUM_BATCHES = 8
"""Different batches; they come again and again. One more is held out."""

MASK_ID, FIRST_WORD = 103, 1000

Batch = dict[str, np.ndarray]


def build() -> tuple[list[Batch], Batch]:
    """Returns the batches of training and the one held out, without padding.

    Words are as frequent as in text (Zipf's law). Each batch has the keys of `BertPretrainer`:
    `input_word_ids`, `input_mask` and `input_type_ids`, int32 `[batch_size, length]`;
    `masked_lm_positions` and `masked_lm_ids`, int32 `[batch_size, num_masked]`;
    `masked_lm_weights`, float32 of the same shape; `next_sentence_labels`, int32 `[batch_size, 1]`.
    """
    random = np.random.default_rng(0)
    drawn = [_draw(random) for _ in range(NUM_BATCHES + 1)]
    return drawn[:-1], drawn[-1]


def _draw(random: np.random.Generator) -> Batch:
    shape = (SIZES.batch_size, SIZES.length)
    words = measuring.draw_words(random, FIRST_WORD, SIZES.vocab_size, shape)
    positions = np.stack(
        [
            np.sort(1 + random.permutation(SIZES.length - 1)[: SIZES.num_masked])
            for _ in range(SIZES.batch_size)
        ]
    )
    ids = words.copy()
    np.put_along_axis(ids, positions, MASK_ID, axis=1)
    second = np.broadcast_to(np.arange(SIZES.length) >= SIZES.length // 2, shape)
    return {
        "input_word_ids": ids.astype("int32"),
        "input_mask": np.ones(shape, "int32"),
        "input_type_ids": second.astype("int32"),
        "masked_lm_positions": positions.astype("int32"),
        "masked_lm_ids": np.take_along_axis(words, positions, axis=1).astype("int32"),
        "masked_lm_weights": np.ones(positions.shape, "float32"),
        "next_sentence_labels": random.integers(0, 2, (SIZES.batch_size, 1)).astype("int32"),
    }


def count_tokens() -> int:
    """Returns the tokens of a batch."""
    return SIZES.batch_size * SIZES.length
