"""A task of Quintain, trained by its trainer as `quintain train` does."""

import argparse
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import measuring
import numpy as np
import tensorflow as tf

from quintain import optimization
from quintain.core import base_task, base_trainer
from quintain.distribute import distribution, runtime_environment
from quintain.garden.core import train_utils
from quintain.settings import config_definitions as cfg

Named = dict[str, np.ndarray]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what our peers have."""
    parser.add_argument("--write_weights", help="write the initial weights to this file, and end")
    parser.add_argument("--kernels", default="auto", choices=("auto", "native", "tensorflow"))
    parser.add_argument("--profile", help="directory for a profile of the measured steps")


def build_trainer(
    task_class: type[base_task.Task],
    task_config: cfg.TaskConfig,
    optimizer: dict[str, Any],
    learning_rate: float,
    options: argparse.Namespace,
) -> base_trainer.Trainer:
    """Builds task, model, optimizer and trainer, as `quintain train` does."""
    optimizer_config = optimization.OptimizationConfig(
        {
            "optimizer": optimizer,
            "learning_rate": {"type": "constant", "constant": {"learning_rate": learning_rate}},
        }
    )
    params = cfg.ExperimentConfig(
        task=task_config,
        trainer=cfg.TrainerConfig(optimizer_config=optimizer_config),
        runtime=cfg.RuntimeConfig(
            distribution_strategy="one_device",
            mixed_precision_dtype=None if options.precision == "float32" else options.precision,
            kernels=options.kernels,
        ),
    )
    keras.utils.set_random_seed(0)
    runtime_environment.prepare(params.runtime)
    strategy = distribution.build_strategy(params.runtime)
    with distribution.precision(params.runtime), strategy.scope():
        task = task_class(params.task, logging_dir=tempfile.mkdtemp())
        return train_utils.create_trainer(params, task, train=True, evaluate=False)


class QuintainPeer:
    """Trains with a trainer, whose data are the batches in their order."""

    def __init__(
        self,
        trainer: base_trainer.Trainer,
        name_weights: Callable[[keras.Model], "Parts"],
        evaluate: Callable[[base_trainer.Trainer], float],
        options: argparse.Namespace,
    ) -> None:
        """Stores the trainer, what names its weights, and what computes the last loss.

        With `--write_weights` the weights are written and the process ends.
        """
        self.trainer = trainer
        self.parts = name_weights(trainer.model)
        self._evaluate = evaluate
        self._profile = options.profile
        self._warmup = options.warmup
        if options.write_weights:
            measuring.Weights.save(options.write_weights, self.parts.read())
            raise SystemExit

    def load(self, weights: measuring.Weights) -> None:
        """Starts from the given weights."""
        self.parts.load(weights)

    def train(self, first: int, count: int) -> float:
        """Trains on the next batches; returns the mean of their losses."""
        is_profiled = self._profile and first >= self._warmup
        if is_profiled:
            tf.profiler.experimental.start(self._profile)
        logs = self.trainer.train(tf.constant(count))
        if is_profiled:
            tf.profiler.experimental.stop()
        return float(logs["training_loss"])

    def evaluate(self) -> float:
        """Returns the loss that is compared at the end."""
        return self._evaluate(self.trainer)


class Parts:
    """The weights of a model by the names that all peers use; some hold several of them."""

    def __init__(self) -> None:
        """Starts with none."""
        self._variables: list[tuple[list[str], keras.Variable]] = []

    def add(self, variable: keras.Variable, *names: str) -> None:
        """Adds a variable, whose last axis holds what `names` name, one beside the other."""
        self._variables.append((list(names), variable))

    def add_dense(self, layer: keras.layers.Layer, *names: str) -> None:
        """Adds kernel and bias."""
        self.add(layer.kernel, *(f"{name}/kernel" for name in names))
        self.add(layer.bias, *(f"{name}/bias" for name in names))

    def add_norm(self, layer: keras.layers.Layer, name: str) -> None:
        """Adds scale and offset."""
        self.add(layer.gamma, f"{name}/gamma")
        self.add(layer.beta, f"{name}/beta")

    def read(self) -> Named:
        """Returns the values."""
        values: Named = {}
        for names, variable in self._variables:
            parts = np.split(keras.ops.convert_to_numpy(variable), len(names), axis=-1)
            values.update(zip(names, parts, strict=True))
        return values

    def load(self, weights: measuring.Weights) -> None:
        """Sets the values."""
        for names, variable in self._variables:
            variable.assign(np.concatenate([weights.take(name) for name in names], axis=-1))
