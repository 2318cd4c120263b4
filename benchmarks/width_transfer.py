"""Finds the best learning rate of narrow and wide networks, plainly and with `mup`.

python benchmarks/width_transfer.py [--steps=150] [--seeds=3] [--plot=FILE.svg]

Three hidden layers learn the digits of scikit-learn with Adam at each learning rate of a grid by
factors of two. A rate's loss is that over the training digits after the last step, a mean over the
seeds. Prints a table of losses, the best rate of each width, and what the grid cost in seconds of
the processor.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from sklearn import datasets

from quintain.optimization import width_transfer
from quintain.optimization.rules import adam

WIDTHS = (64, 128, 256, 512)
RATES = tuple(2.0**-power for power in range(11, 3, -1))
BATCH_SIZE = 64


def build(width: int) -> keras.Model:
    """Builds a network from `[B, 64]` pixels to `[B, 10]` logits."""
    hidden = [
        keras.layers.Dense(width, activation="relu", kernel_initializer="he_normal")
        for _ in range(3)
    ]
    return keras.Sequential([keras.Input([64]), *hidden, keras.layers.Dense(10)])


def measure(width: int, is_mup: bool, num_steps: int, num_seeds: int) -> np.ndarray:
    """Returns the loss at each rate, `[rates, seeds]`."""
    images, classes = datasets.load_digits(return_X_y=True)
    images, classes = tf.constant(images / 16.0, tf.float32), tf.constant(classes)
    loss_fn = tf.nn.sparse_softmax_cross_entropy_with_logits
    model, optimizer = build(width), adam.Adam(0.0)
    has_factors = is_mup and width > WIDTHS[0]
    if has_factors:
        width_transfer.apply(model, build(WIDTHS[0]), optimizer)
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function
    def train(rows: tf.Tensor) -> tf.Tensor:
        for batch in rows:
            with tf.GradientTape() as tape:
                logits = model(tf.gather(images, batch))
                loss = tf.reduce_mean(loss_fn(tf.gather(classes, batch), logits))
            gradients = tape.gradient(loss, [variable.value for variable in variables])
            optimizer.apply(gradients, variables)
        return tf.reduce_mean(loss_fn(classes, model(images)))

    losses = np.zeros((len(RATES), num_seeds))
    for seed in range(num_seeds):
        keras.utils.set_random_seed(seed)
        new, order = build(width), np.random.default_rng(seed)
        if has_factors:
            width_transfer.apply(new, build(WIDTHS[0]), adam.Adam(0.0))
        rows = tf.constant(order.integers(0, len(images), (num_steps, BATCH_SIZE)))
        for place, rate in enumerate(RATES):
            for variable, first in zip(variables, new.trainable_variables, strict=True):
                variable.assign(first)
            for variable in optimizer.variables:
                variable.assign(tf.zeros_like(variable))
            optimizer.learning_rate.assign(rate)
            losses[place, seed] = train(rows).numpy()
    return losses


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot")
    args = parser.parse_args()
    print("kind      width  " + "  ".join(f"{rate:>7.5f}" for rate in RATES) + "     best  seconds")
    means: dict[str, dict[int, np.ndarray]] = {"standard": {}, "mup": {}}
    for kind, by_width in means.items():
        for width in WIDTHS:
            start = time.process_time()
            losses = measure(width, kind == "mup", args.steps, args.seeds)
            secs = time.process_time() - start
            by_width[width] = mean = losses.mean(axis=1)
            cells = "  ".join(f"{loss:>7.4f}" for loss in mean)
            best = RATES[int(mean.argmin())]
            print(f"{kind:<8}  {width:>5}  {cells}  {best:>7.5f}  {secs:>7.1f}", flush=True)
    if args.plot:
        plot(means, args.plot)


def plot(means: dict[str, dict[int, np.ndarray]], path: str) -> None:
    """Draws the losses over the learning rates, a line for each width."""
    from matplotlib import figure

    drawn = figure.Figure(figsize=(9, 3.8), layout="constrained")
    for axes, (kind, by_width) in zip(
        drawn.subplots(1, 2, sharey=True), means.items(), strict=True
    ):
        for place, (width, losses) in enumerate(by_width.items()):
            shade = str(0.75 - 0.25 * place)
            axes.plot(RATES, losses, color=shade, label=f"width {width}")
            best = int(losses.argmin())
            axes.plot(RATES[best], losses[best], "o", color=shade)
        axes.set(title=kind, xscale="log", yscale="log", xlabel="learning rate")
        axes.set_xticks(RATES[1::2], [f"{rate:.2g}" for rate in RATES[1::2]])
        axes.minorticks_off()
    drawn.axes[0].set_ylabel("training loss in nats")
    drawn.axes[0].legend()
    drawn.savefig(path)


if __name__ == "__main__":
    main()
