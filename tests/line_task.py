"""A task that trains in milliseconds: linear regression with dropout, on data made from a seed."""

import dataclasses

import keras
import pytest
import tensorflow as tf

from quintain.core import base_task, exp_factory, task_factory
from quintain.settings import config_definitions as cfg

NUM_FEATURES = 3


@dataclasses.dataclass
class LineConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=8)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=8)
    num_examples: int = 64
    is_finite: bool = False
    dropout_rate: float = 0.1


class LineTask(base_task.Task):
    """Learns the sum of three numbers."""

    def build_model(self):
        model = keras.Sequential(
            [
                keras.layers.Dense(8),
                keras.layers.Dropout(self.task_config.dropout_rate),
                keras.layers.Dense(1),
            ]
        )
        model.build((None, NUM_FEATURES))
        return model

    def build_inputs(self, params, input_context=None):
        count = self.task_config.num_examples - (0 if params.is_training else 3)
        features = tf.random.stateless_normal([count, NUM_FEATURES], seed=(1, 2))
        labels = tf.reduce_sum(features, axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels))
        if not params.is_training:
            return dataset.batch(params.global_batch_size)
        dataset = dataset.shuffle(count, seed=params.seed, reshuffle_each_iteration=True)
        dataset = dataset.batch(params.global_batch_size)
        return dataset if self.task_config.is_finite else dataset.repeat()

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - tf.cast(model_outputs, tf.float32)))

    def build_metrics(self, training=True):
        return [keras.metrics.MeanAbsoluteError(name="absolute_error")]


@pytest.fixture(autouse=True)
def line_task_is_registered():
    with task_factory.TASKS.temporarily(), exp_factory.EXPERIMENTS.temporarily():
        task_factory.register_task_cls(LineConfig)(LineTask)
        exp_factory.register_config_factory("test/line")(build_line_experiment)
        yield


def build_line_experiment():
    """Learns a line."""
    return cfg.ExperimentConfig(
        task=LineConfig(),
        trainer=cfg.TrainerConfig(
            optimizer_config={
                "optimizer": {"type": "adam"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.01}},
            },
            train_steps=40,
            steps_per_loop=5,
            summary_interval=5,
            checkpoint_interval=10,
            validation_interval=20,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )


@pytest.fixture
def line_params():
    """Returns a function that builds the experiment with some fields overridden."""

    def build(overrides=None):
        params = build_line_experiment()
        params.override(overrides or {})
        return params

    return build
