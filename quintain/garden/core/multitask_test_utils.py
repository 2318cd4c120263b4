"""Two small tasks and a model of both, for tests of multitask trainings."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import base_task, task_factory
from quintain.core.multitask import base_model
from quintain.settings import config_definitions as cfg

_SHAPE = (2,)


class _MockModel(keras.Model):
    """A head over a layer that several models share."""

    def __init__(self, shared_layer: keras.layers.Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._share_layer = shared_layer
        self._head = keras.layers.Dense(1)

    def call(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        self.add_loss(tf.zeros([]))
        return self._head(self._share_layer(self._choose(inputs)))

    def _choose(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        raise NotImplementedError


class MockFooModel(_MockModel):
    """Takes `foo`, or `bar` if there is none: `[B, 2]` float32 to `[B, 1]` float32."""

    def _choose(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return inputs["foo"] if "foo" in inputs else inputs["bar"]


class MockBarModel(_MockModel):
    """Takes `bar`: `[B, 2]` float32 to `[B, 1]` float32."""

    def _choose(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return inputs["bar"]


class MockMultiTaskModel(base_model.MultiTaskBaseModel):
    """A model for each of the tasks `foo` and `bar`, over one shared layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._shared_dense = keras.layers.Dense(1)
        super().__init__(*args, **kwargs)

    def _instantiate_sub_tasks(self) -> dict[str, keras.Model]:
        return {"foo": MockFooModel(self._shared_dense), "bar": MockBarModel(self._shared_dense)}


def mock_data(feature_name: str) -> tf.data.Dataset:
    """Returns batches of two examples without end: zeros `[2, 2]` float32, labels `[2, 1]` int32.

    Args:
        feature_name: Name of the input.
    """
    features = {feature_name: tf.zeros([2, *_SHAPE])}
    return tf.data.Dataset.from_tensors((features, tf.zeros([2, 1], tf.int32))).repeat()


class FooConfig(cfg.TaskConfig):
    """The config of `MockFooTask`."""


class BarConfig(cfg.TaskConfig):
    """The config of `MockBarTask`."""


class _MockTask(base_task.Task):
    """Learns the labels by their squared difference."""

    _FEATURE = ""

    def build_inputs(self, params: Any, input_context: Any = None) -> tf.data.Dataset:
        return mock_data(self._FEATURE)

    def build_losses(
        self, labels: tf.Tensor, model_outputs: tf.Tensor, aux_losses: Any = None
    ) -> tf.Tensor:
        loss = tf.reduce_mean(tf.square(model_outputs - tf.cast(labels, model_outputs.dtype)))
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    def build_metrics(self, training: bool = True) -> list[keras.metrics.Metric]:
        return [keras.metrics.Accuracy(name=f"{self._FEATURE}_acc")]


@task_factory.register_task_cls(FooConfig)
class MockFooTask(_MockTask):
    """The task `foo`, which has a model of its own too."""

    _FEATURE = "foo"

    @override
    def build_model(self) -> keras.Model:
        return MockFooModel(shared_layer=keras.layers.Dense(1))


@task_factory.register_task_cls(BarConfig)
class MockBarTask(_MockTask):
    """The task `bar`, which is trained in a `MockMultiTaskModel` only."""

    _FEATURE = "bar"
