"""Texts and sizes of the comparison of fine-tuning BERT: the same for both peers."""

import argparse
import json
import pathlib
import sys
import time

import numpy as np

# The peers run where they lie; what measures lies beside their directory.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "step_peers"))

import measuring

NUM_LAYERS, WIDTH, NUM_HEADS, INTERMEDIATE = 12, 768, 12, 3072
VOCAB_SIZE, NUM_POSITIONS, NUM_CLASSES = 30_522, 512, 2
BATCH_SIZE, SEQ_LENGTH = 16, 128
MEDIAN_LENGTH, SPREAD = 40, 0.6
LEARNING_RATE, WEIGHT_DECAY = 2e-5, 0.01
CLS_ID, SEP_ID, FIRST_WORD = 101, 102, 1000


def draw(count: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns texts as rows of ids, int32 of different lengths, and their classes `[count]`.

    Words are as frequent as in text (Zipf's law); lengths are log-normal, as those of sentences,
    and cut at `SEQ_LENGTH`.
    """
    random = np.random.default_rng(0)
    lengths = np.exp(random.normal(np.log(MEDIAN_LENGTH), SPREAD, count))
    rows = []
    for length in np.clip(lengths, 4, SEQ_LENGTH).astype(int):
        words = measuring.draw_words(random, FIRST_WORD, VOCAB_SIZE, (length - 2,))
        rows.append(np.array([CLS_ID, *words, SEP_ID], np.int32))
    return rows, random.integers(0, NUM_CLASSES, count)


def parse() -> argparse.Namespace:
    """Reads the steps of a run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warmup", type=int, required=True)
    return parser.parse_args()


class Clock:
    """Wall and processor time between the end of the warm-up and the end of the run."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def report(self, name: str, count: float) -> None:
        """Prints what was done a second, of the clock and of the processor, and the memory."""
        wall, processor = self._start
        secs, processor_secs = time.perf_counter() - wall, time.process_time() - processor
        found = {
            f"{name}_per_sec": count / secs,
            f"{name}_per_processor_sec": count / processor_secs,
        }
        print(json.dumps({**found, "mib": measuring.peak_memory()}))
