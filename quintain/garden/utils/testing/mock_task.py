"""Mock task for tests of training loops: the experiment `mock`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain.config import base_config
from quintain.core import base_task, exp_factory
from quintain.settings import config_definitions as cfg


class MockModel(keras.Model):
    """A network whose loss is the mean of what it gives."""

    def __init__(self, network: keras.Model) -> None:
        super().__init__()
        self.network = network

    @override
    def call(self, inputs: Any) -> Any:
        outputs = self.network(inputs)
        self.add_loss(tf.reduce_mean(outputs))
        return outputs


@dataclasses.dataclass
class MockTaskConfig(cfg.TaskConfig):
    """The config of `MockTask`."""


@base_config.bind(MockTaskConfig)
class MockTask(base_task.Task):
    """A dense layer on two zeros; an evaluation counts its batches as `counter`."""

    def __init__(
        self,
        params: MockTaskConfig | None = None,
        logging_dir: str | None = None,
        name: str | None = None,
    ) -> None:
        """Initializes the task.

        Args:
            params: Config of the task.
            logging_dir: Directory of the run.
            name: Name of the task.
        """
        super().__init__(params or MockTaskConfig(), logging_dir=logging_dir, name=name)

    def build_model(self, *args: Any, **kwargs: Any) -> keras.Model:
        """Returns a model of `[B, 2]` float32 to `[B, 1]` float32."""
        inputs = keras.Input([2], name="random", dtype="float32")
        dense = keras.layers.Dense(1, bias_initializer="ones", name="dense_0")
        return MockModel(keras.Model(inputs, dense(inputs)))

    @override
    def build_metrics(self, training: bool = True) -> list[keras.metrics.Metric]:
        return [keras.metrics.Accuracy(name="acc")]

    def validation_step(
        self, inputs: Any, model: keras.Model, metrics: Any = None
    ) -> dict[str, Any]:
        """Evaluates a batch, and counts it."""
        return super().validation_step(inputs, model, metrics) | {"counter": tf.constant(1.0)}

    def build_inputs(self, params: Any, input_context: Any = None) -> tf.data.Dataset:
        """Returns batches of zeros without end: `[2, 2]` float32 and `[2, 1]` int32."""
        return tf.data.Dataset.from_tensors((tf.zeros([2, 2]), tf.zeros([2, 1], tf.int32))).repeat()

    def aggregate_logs(
        self,
        state: dict[str, list[Any]] | None = None,
        step_outputs: Mapping[str, Any] | None = None,
    ) -> dict[str, list[Any]]:
        """Keeps the numbers of all batches."""
        state = {} if state is None else state
        for name, parts in (step_outputs or {}).items():
            state.setdefault(name, []).append(np.stack([np.asarray(part) for part in parts]))
        return state

    def reduce_aggregated_logs(
        self, aggregated_logs: Mapping[str, list[Any]], global_step: tf.Variable | None = None
    ) -> dict[str, Any]:
        """Returns their sums."""
        return {name: np.sum(np.stack(parts)) for name, parts in aggregated_logs.items()}


@exp_factory.register_config_factory("mock")
def mock_experiment() -> cfg.ExperimentConfig:
    """Does next to nothing, for tests."""
    return cfg.ExperimentConfig(task=MockTaskConfig(), trainer=cfg.TrainerConfig())
