"""Times a differentially private training step against an ordinary one, forward to update.

The two take turns (A B A B ...), so that a busy machine slows both. Run it as

    python benchmarks/privacy.py [--rounds 10] [--only "mlp" "transformer"]

It prints the median time of a step of each and the median of the ratios of neighbours.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from quintain.core import base_task
from quintain.optimization.configs import optimization_config
from quintain.settings import config_definitions as cfg

NUM_CLASSES = 10
NUM_TOKENS = 2000
OPTIMIZER = {
    "optimizer": {"type": "adam"},
    "learning_rate": {"type": "constant", "constant": {"learning_rate": 1e-3}},
}
PRIVATE = cfg.DifferentialPrivacyConfig(clipping_norm=1.0, noise_multiplier=1.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and the shape of its batches."""

    build: Callable[[], keras.Model]
    batch_size: int
    length: int
    is_text: bool


class Block(keras.Model):
    """A Transformer encoder with pooling."""

    def __init__(self, width: int, num_layers: int, dropout_rate: float) -> None:
        super().__init__()
        layers = keras.layers
        self.embedding = layers.Embedding(NUM_TOKENS, width)
        self.attentions = [
            layers.MultiHeadAttention(4, width // 4, dropout=dropout_rate)
            for _ in range(num_layers)
        ]
        self.wide = [layers.Dense(4 * width, activation="relu") for _ in range(num_layers)]
        self.narrow = [layers.Dense(width) for _ in range(num_layers)]
        self.norms = [layers.LayerNormalization() for _ in range(2 * num_layers)]
        self.dropout = layers.Dropout(dropout_rate)
        self.head = layers.Dense(NUM_CLASSES)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the logits of the classes."""
        states = self.embedding(inputs)
        for index, attention in enumerate(self.attentions):
            normed = self.norms[2 * index](states)
            states += self.dropout(attention(normed, normed, training=training), training=training)
            normed = self.norms[2 * index + 1](states)
            states += self.narrow[index](self.wide[index](normed))
        return self.head(tf.reduce_mean(states, axis=1))


def build_mlp(dropout_rate: float) -> keras.Model:
    """Two hidden layers of 256."""
    hidden = [keras.layers.Dense(256, activation="relu") for _ in range(2)]
    return keras.Sequential(
        [*hidden, keras.layers.Dropout(dropout_rate), keras.layers.Dense(NUM_CLASSES)]
    )


CASES = {
    "mlp": Case(lambda: build_mlp(0.0), 256, 784, is_text=False),
    "mlp, dropout": Case(lambda: build_mlp(0.1), 256, 784, is_text=False),
    "transformer": Case(lambda: Block(128, 2, 0.0), 64, 32, is_text=True),
    "transformer, dropout": Case(lambda: Block(128, 2, 0.1), 64, 32, is_text=True),
}


class BenchmarkTask(base_task.Task):
    """Classifies what a case makes."""

    def __init__(self, case: Case, dp_config: cfg.DifferentialPrivacyConfig | None) -> None:
        super().__init__(cfg.TaskConfig(differential_privacy_config=dp_config))
        self._case = case

    def build_model(self) -> keras.Model:
        """Builds the model of the case."""
        model = self._case.build()
        model(make_batch(self._case)[0])
        return model

    def build_inputs(self, params: Any, input_context: Any = None) -> tf.data.Dataset:
        """Not needed: all steps see the same batch."""
        raise NotImplementedError

    def build_losses(self, labels: Any, model_outputs: Any, aux_losses: Any = None) -> tf.Tensor:
        """Returns the cross entropy."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model_outputs)
        return tf.reduce_mean(losses)


def make_batch(case: Case) -> tuple[tf.Tensor, tf.Tensor]:
    """Makes features and labels."""
    generator = np.random.default_rng(1)
    shape = (case.batch_size, case.length)
    tokens = generator.integers(0, NUM_TOKENS, shape).astype(np.int32)
    features = tokens if case.is_text else generator.normal(size=shape).astype(np.float32)
    labels = generator.integers(0, NUM_CLASSES, case.batch_size).astype(np.int32)
    return tf.constant(features), tf.constant(labels)


def make_step(case: Case, dp_config: cfg.DifferentialPrivacyConfig | None) -> Callable[[], None]:
    """Makes a traced function that runs one training step."""
    task = BenchmarkTask(case, dp_config)
    model = task.build_model()
    optimizer = task.create_optimizer(
        optimization_config.OptimizationConfig(OPTIMIZER), None, dp_config
    )
    optimizer.build(model.trainable_variables)
    batch = make_batch(case)
    step = tf.function(lambda *parts: task.train_step(parts, model, optimizer)["loss"])

    def run() -> None:
        step(*batch).numpy()

    run()
    return run


def measure(run: Callable[[], None], num_steps: int) -> float:
    """Returns the milliseconds of one step."""
    start = time.perf_counter()
    for _ in range(num_steps):
        run()
    return 1000.0 * (time.perf_counter() - start) / num_steps


def main() -> None:
    """Prints one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(CASES), help="names of the cases")
    arguments = parser.parse_args()
    print(f"{'case':24}{'plain ms':>10}{'private ms':>12}{'private / plain':>18}")
    for name in arguments.only:
        plain, private = (make_step(CASES[name], dp_config) for dp_config in (None, PRIVATE))
        times = [(measure(plain, 5), measure(private, 5)) for _ in range(arguments.rounds)]
        ratio = statistics.median(b / a for a, b in times)
        medians = [statistics.median(column) for column in zip(*times, strict=True)]
        print(f"{name:24}{medians[0]:10.2f}{medians[1]:12.2f}{ratio:18.2f}", flush=True)


if __name__ == "__main__":
    main()
