"""Times one update of 25 million weights: our optimizers against those of Keras.

The two take turns (A B A B ...), so that a busy machine slows both. Run it as

    python benchmarks/optimizers.py [--rounds 10] [--only "adam" "lamb"] [--jit] [--kernels native]

It prints the median time of a step of each and the median of the ratios of neighbours. With
`--kernels native` ours use native kernels, as training steps do; only Adam and its kin have some.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from quintain import optimization
from quintain.kernels import modes, selection

WIDTH = 512
STEPS_PER_ROUND = 3
PAIRS: dict[str, tuple[Callable[[], keras.optimizers.Optimizer], ...]] = {
    "sgd, momentum": (
        lambda: optimization.SGD(1e-3, momentum=0.9),
        lambda: keras.optimizers.SGD(1e-3, momentum=0.9),
    ),
    "adam": (lambda: optimization.Adam(1e-3), lambda: keras.optimizers.Adam(1e-3)),
    "adam, global_clipnorm": (
        lambda: optimization.Adam(1e-3, global_clipnorm=1.0),
        lambda: keras.optimizers.Adam(1e-3, global_clipnorm=1.0),
    ),
    "adamw, global_clipnorm": (
        lambda: optimization.AdamWeightDecay(1e-3, weight_decay_rate=0.01),
        lambda: keras.optimizers.AdamW(1e-3, weight_decay=0.01, global_clipnorm=1.0),
    ),
    "rmsprop": (lambda: optimization.RMSprop(1e-3), lambda: keras.optimizers.RMSprop(1e-3)),
    "rmsprop, momentum": (
        lambda: optimization.RMSprop(1e-3, momentum=0.9),
        lambda: keras.optimizers.RMSprop(1e-3, momentum=0.9),
    ),
    "adagrad": (lambda: optimization.Adagrad(1e-3), lambda: keras.optimizers.Adagrad(1e-3)),
    "adadelta": (lambda: optimization.Adadelta(1e-3), lambda: keras.optimizers.Adadelta(1e-3)),
    "adamax": (lambda: optimization.Adamax(1e-3), lambda: keras.optimizers.Adamax(1e-3)),
    "nadam": (lambda: optimization.Nadam(1e-3), lambda: keras.optimizers.Nadam(1e-3)),
    "ftrl": (lambda: optimization.Ftrl(1e-3), lambda: keras.optimizers.Ftrl(1e-3)),
    "lamb": (lambda: optimization.LAMB(1e-3), lambda: keras.optimizers.Lamb(1e-3)),
    "lion": (lambda: optimization.Lion(1e-3), lambda: keras.optimizers.Lion(1e-3)),
    "adafactor_keras": (
        lambda: optimization.AdafactorKeras(1e-3),
        lambda: keras.optimizers.Adafactor(1e-3),
    ),
    "muon": (lambda: optimization.Muon(1e-3), lambda: keras.optimizers.Muon(1e-3)),
}


def make_weights() -> list[keras.Variable]:
    """Makes 6 layers of a Transformer's shapes and an embedding."""
    layer = [(WIDTH, WIDTH)] * 4 + [(WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)] + [(WIDTH,)] * 4
    shapes = [shape for _ in range(6) for shape in layer] + [(12_000, WIDTH)]
    return [keras.Variable(np.full(shape, 0.1, "float32")) for shape in shapes]


def make_step(
    build: Callable[[], keras.optimizers.Optimizer], mode: modes.KernelMode, *, jit_compile: bool
) -> Callable[[], None]:
    """Makes a traced function that runs one update, with the kernels that are asked for."""
    weights = make_weights()
    optimizer = build()
    optimizer.build(weights)
    gradients = [tf.fill(weight.shape, 0.01) for weight in weights]

    @tf.function(jit_compile=jit_compile)
    def step(*parts: tf.Tensor) -> None:
        with selection.training_scope(mode):
            optimizer.apply_gradients(zip(parts, weights, strict=True))

    def run() -> None:
        for _ in range(STEPS_PER_ROUND):
            step(*gradients)
        optimizer.iterations.numpy()

    run()
    return run


def measure(run: Callable[[], None]) -> float:
    """Returns the milliseconds of one step."""
    start = time.perf_counter()
    run()
    return 1000.0 * (time.perf_counter() - start) / STEPS_PER_ROUND


def main() -> None:
    """Prints one line for each pair of optimizers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(PAIRS), help="names of the pairs")
    parser.add_argument("--jit", action="store_true", help="compile with XLA")
    parser.add_argument("--kernels", choices=["native", "tensorflow"], default="tensorflow")
    arguments = parser.parse_args()
    if arguments.jit and arguments.kernels == "native":
        parser.error("--kernels native: XLA, which --jit asks for, has kernels of its own")
    mode = modes.KernelMode(arguments.kernels)
    size = sum(int(np.prod(weight.shape)) for weight in make_weights())
    print(f"{size / 1e6:.1f} million weights in {len(make_weights())} variables")
    for name in arguments.only:
        builders = PAIRS[name]
        ours, theirs = (make_step(build, mode, jit_compile=arguments.jit) for build in builders)
        times = [(measure(ours), measure(theirs)) for _ in range(arguments.rounds)]
        ratio = statistics.median(right / left for left, right in times)
        left, right = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:24} ours {left:7.1f} ms   keras {right:7.1f} ms   ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
