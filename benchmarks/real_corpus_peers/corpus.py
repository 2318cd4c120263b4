"""What all peers of the real-corpus benchmark share: pairs, the clock, evaluations and output."""

import argparse
import json
import math
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import batches
import measuring
import numpy as np
import sentencepiece

MAX_LENGTH = 64
"""Most tokens of a sentence, its end included; longer pairs are left out."""

EXTRA_LENGTH = 20
"""How many tokens longer than its source a translation may be, its end included."""

NUM_VALIDATION = 300
VALIDATION_BATCH = 100
WARMUP_STEPS = 200
PEAK_LEARNING_RATE = 1e-3
CLIP_NORM = 1.0
UNTIMED_SHARE = 0.25
"""Share of a run that is not counted into its tokens a second."""

CLOCKS = {"wall": time.time, "processor": time.process_time}
"""What time is read from. That of the processor runs alike on a busy and on an idle machine."""

Pair = tuple[list[int], list[int]]


def parse_options() -> argparse.Namespace:
    """Returns what the benchmark asks of a peer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    parser.add_argument("--started", type=float, default=time.time())
    parser.add_argument("--secs", type=float, required=True)
    parser.add_argument("--evaluations", type=int, required=True)
    parser.add_argument("--batch_tokens", type=int, required=True)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--seed", type=int, default=0, help="of weights, dropout and order")
    parser.add_argument("--translate", action="store_true")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--fast", action="store_true", help="`translation/fast`")
    parser.add_argument("--nojit", action="store_true", help="Keras without XLA")
    return parser.parse_args()


def learning_rate(step: int) -> float:
    """Returns the rate of step 1, 2, ...: it rises along a line, then falls as `step ** -0.5`."""
    return PEAK_LEARNING_RATE * min(step / WARMUP_STEPS, math.sqrt(WARMUP_STEPS / step))


def scale_rate(share: float, warmup: float, decay: float | None = None) -> float:
    """Returns the factor of the learning rate at a share of the time.

    It rises along a line for `warmup` of the time, and falls along a line to 0 for the last `decay`
    of it; None: for all that the warm-up leaves.
    """
    falling = (1 - share) / (1 - warmup if decay is None else decay)
    return max(0.0, min(1.0, (share + 0.002) / warmup, falling))


def read_pairs(options: argparse.Namespace, name: str) -> list[Pair]:
    """Returns the ids of a file's pairs, both ending in EOS, without those that are too long."""
    processor = sentencepiece.SentencePieceProcessor(model_file=options.vocabulary)
    lines = (options.corpus / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    sides = (processor.encode(list(side), add_eos=True) for side in (sources, targets))
    return [
        (source, target)
        for source, target in zip(*sides, strict=True)
        if min(len(source), len(target)) > 1 and max(len(source), len(target)) <= MAX_LENGTH
    ]


def select_validation(pairs: Sequence[Any]) -> list[Any]:
    """Returns the pairs to evaluate on, evenly spread over the file."""
    count = min(NUM_VALIDATION, len(pairs))
    return [pairs[i] for i in np.linspace(0, len(pairs) - 1, count).astype(int)]


def pad(rows: Sequence[Sequence[int]], length: int | None = None) -> np.ndarray:
    """Returns the rows, padded to `length` or the longest, `[B, L]` int64."""
    length = length or max(map(len, rows))
    return np.array([[*row, *[batches.PAD_ID] * (length - len(row))] for row in rows])


class LengthBatches:
    """Endless batches of rows of similar length, each of about the same number of tokens.

    Every epoch the pairs are shuffled, cut into pools of a hundred batches, sorted by length in
    each pool and cut into batches, which come in random order.
    """

    def __init__(self, pairs: Sequence[Pair], options: argparse.Namespace) -> None:
        """Stores the lengths."""
        self._longest = np.array([max(map(len, pair)) for pair in pairs])
        self._sources = np.array([len(source) for source, _ in pairs])
        self._budget = options.batch_tokens // 2
        self._seed = options.seed

    def __iter__(self) -> Iterator[list[int]]:
        """Yields the numbers of each batch's pairs."""
        random = np.random.default_rng(self._seed)
        while True:
            yield from self.draw_epoch(random)

    def draw_epoch(self, random: np.random.Generator) -> list[list[int]]:
        """Returns the batches of one epoch."""
        order = random.permutation(len(self._longest))
        pool = int(100 * self._budget / self._longest.mean())
        cut: list[list[int]] = []
        for start in range(0, len(order), pool):
            rows = order[start : start + pool]
            batch: list[int] = []
            for row in rows[np.lexsort((self._sources[rows], self._longest[rows]))]:
                # Sorted: this row is the longest so far.
                if (len(batch) + 1) * self._longest[row] > self._budget:
                    cut.append(batch)
                    batch = []
                batch.append(int(row))
            cut.append(batch)
        return [cut[i] for i in random.permutation(len(cut))]


class Run:
    """Tells a peer when to stop, evaluates on the way, and prints what was found as JSON lines.

    Time runs from the start of the process; that of evaluations does not count.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        evaluate: Callable[[np.ndarray, np.ndarray], float],
        translate: Callable[[np.ndarray, np.ndarray], np.ndarray] | None,
    ) -> None:
        """Stores how to evaluate.

        Args:
            options: See `parse_options`.
            evaluate: Maps source and target ids of a batch to the sum of the targets' losses,
                without smoothing, in nats.
            translate: Maps source ids and the most tokens of each translation to the ids of
                greedy translations. None if the peer does not translate.
        """
        self._options = options
        self._evaluate_batch = evaluate
        self._translate_batch = translate if options.translate else None
        self._pairs = select_validation(read_pairs(options, "valid"))
        self._read_clock = CLOCKS[options.clock]
        self._paused = options.started if options.clock == "wall" else 0.0
        self._steps = self._tokens = 0
        self._first = self._timed = (0.0, 0, 0)
        self._num_evaluated = 0
        self._memory = 0.0

    def elapsed(self) -> float:
        """Returns the seconds since the start of the process, without evaluations."""
        return self._read_clock() - self._paused

    def count(self, tokens: int, steps: int = 1) -> bool:
        """Counts steps and their tokens without padding. Returns whether the time is over."""
        self._steps += steps
        self._tokens += tokens
        now = (self.elapsed(), self._steps, self._tokens)
        if not self._first[0]:
            self._first = now
        if not self._timed[0] and now[0] >= UNTIMED_SHARE * self._options.secs:
            self._timed = now
        due = self._options.secs * (self._num_evaluated + 1) / self._options.evaluations
        if now[0] < due:
            return False
        self._memory = self._memory or measuring.peak_memory()
        start = self._read_clock()
        self._evaluate(now[0])
        self._paused += self._read_clock() - start
        if self._num_evaluated < self._options.evaluations:
            return False
        secs, steps, tokens = (now[i] - self._timed[i] for i in range(3))
        found = {
            "tokens_per_sec": tokens / secs if secs else math.nan,
            "steps": self._steps,
            "tokens": self._tokens,
            "steps_per_sec": steps / secs if secs else math.nan,
            "tokens_per_step": self._tokens / self._steps,
            "secs_to_first_step": self._first[0],
            "mib": self._memory,
        }
        print(json.dumps(found), flush=True)
        return True

    def _evaluate(self, secs: float) -> None:
        start = time.time()
        order = sorted(range(len(self._pairs)), key=lambda i: len(self._pairs[i][0]))
        loss, translations = 0.0, dict[int, list[int]]()
        for first in range(0, len(order), VALIDATION_BATCH):
            rows = order[first : first + VALIDATION_BATCH]
            sources, targets = (pad([self._pairs[i][side] for i in rows]) for side in range(2))
            loss += self._evaluate_batch(sources, targets)
            if self._translate_batch is not None:
                limits = np.count_nonzero(sources, axis=1) + EXTRA_LENGTH
                found = np.asarray(self._translate_batch(sources, limits)).tolist()
                for row, ids, limit in zip(rows, found, limits, strict=True):
                    translations[row] = cut(ids[:limit])
        evaluation: dict[str, Any] = {
            "secs": secs,
            "steps": self._steps,
            "loss": loss / sum(len(target) for _, target in self._pairs),
            "evaluation_secs": time.time() - start,
        }
        if translations:
            evaluation["translations"] = [translations[i] for i in range(len(self._pairs))]
        print(json.dumps(evaluation), flush=True)
        # What comes late is not made up for.
        share = secs / self._options.secs
        self._num_evaluated = max(
            self._num_evaluated + 1, int(share * self._options.evaluations + 1e-9)
        )


def cut(ids: Sequence[int]) -> list[int]:
    """Returns ids up to the first EOS."""
    ids = list(ids)
    return ids[: ids.index(batches.EOS_ID)] if batches.EOS_ID in ids else ids
