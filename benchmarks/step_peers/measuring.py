"""What is the same for every peer of the step benchmarks: options, timing, batches, the report.

Each peer is a script that calls `main` with a function that builds a `Peer`. It is started by
`benchmarks/step_comparison.py`, in a process of its own, and finds this directory by importing its
`batches` first.
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

IS_CHECK = os.environ.get("STEP_SIZES") == "tiny"
"""Whether the model is tiny and without dropout, to compare losses instead of speeds."""


class Weights:
    """The initial weights of a model, by the names that all peers use.

    Kernels are `[inputs, outputs]`; what other shape a peer wants is its affair.
    """

    def __init__(self, path: str) -> None:
        """Opens the file that `save` wrote."""
        self._archive = np.load(path)
        self._left = set(self._archive.files)

    def take(self, name: str) -> np.ndarray:
        """Returns a weight, which no other may take."""
        self._left.remove(name)
        return self._archive[name]

    def close(self) -> None:
        """Raises ValueError if there are weights that nobody took."""
        if self._left:
            raise ValueError(f"weights left: {', '.join(sorted(self._left))}")
        self._archive.close()

    @staticmethod
    def save(path: str, named: dict[str, np.ndarray]) -> None:
        """Writes a file of weights.

        In a check those that start as zeros or ones get other values as well, so that a bias or
        a normalisation that two peers apply differently is seen.
        """
        if IS_CHECK:
            random = np.random.default_rng(1)
            named = {
                name: value + random.normal(0.0, 0.05, value.shape).astype("float32")
                for name, value in named.items()
            }
        np.savez(path, **named)


class Peer(Protocol):
    """A model with an optimizer."""

    def load(self, weights: Weights) -> None:
        """Starts from the given weights."""

    def train(self, first: int, count: int) -> float:
        """Trains on the batches from number `first` on; returns the mean of their losses."""

    def evaluate(self) -> float:
        """Returns the loss that is compared at the end, computed without dropout."""


def main(
    build: Callable[[argparse.Namespace], Peer],
    *,
    tokens_per_step: int,
    add_options: Callable[[argparse.ArgumentParser], Any] = lambda parser: None,
) -> None:
    """Builds a peer, trains with it, and prints a line of JSON.

    It holds `tokens_per_sec`, `tokens_per_processor_sec` (of all cores together; on a busy machine
    it says more, unless threads wait by spinning), `loss` and `mib`, the most memory held; in a
    check the `losses` of all steps, and the last of `evaluate`.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--weights", help="file of the weights to start from")
    add_options(parser)
    options = parser.parse_args()
    peer = build(options)
    if options.weights:
        weights = Weights(options.weights)
        peer.load(weights)
        weights.close()
    if IS_CHECK:
        losses = [peer.train(step, 1) for step in range(options.steps)]
        print(json.dumps({"losses": [*losses, peer.evaluate()]}))
        return
    peer.train(0, options.warmup)
    start, processor_start = time.perf_counter(), time.process_time()
    peer.train(options.warmup, options.steps)
    secs, processor_secs = time.perf_counter() - start, time.process_time() - processor_start
    memory = peak_memory()
    tokens = options.steps * tokens_per_step
    found = {"tokens_per_sec": tokens / secs, "tokens_per_processor_sec": tokens / processor_secs}
    print(json.dumps({**found, "loss": peer.evaluate(), "mib": memory}))


def draw_words(
    random: np.random.Generator, first: int, vocab_size: int, shape: tuple[int, ...]
) -> np.ndarray:
    """Returns ids from `first` to `vocab_size`, as frequent as words in text (Zipf's law)."""
    chances = 1.0 / np.arange(1, vocab_size - first + 1)
    return random.choice(np.arange(first, vocab_size), size=shape, p=chances / chances.sum())


def peak_memory() -> float:
    """Returns the most memory this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
