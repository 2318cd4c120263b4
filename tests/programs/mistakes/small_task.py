"""A task without mistakes, whose parts the programs of this directory replace by wrong ones."""

import dataclasses

import keras
import tensorflow as tf

from quintain.core import base_task, exp_factory, task_factory
from quintain.core import config_definitions as cfg


@dataclasses.dataclass
class SmallConfig(cfg.TaskConfig):
    """Two batches of four examples."""


class SmallTask(base_task.Task):
    """Learns the sum of two numbers."""

    def build_model(self):
        return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])

    def build_inputs(self, params, input_context=None):
        features = tf.random.stateless_normal([8, 2], seed=(1, 2))
        labels = tf.reduce_sum(features, axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(4)
        return dataset.repeat() if params.is_training else dataset

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))


def register(task_cls):
    """Registers an experiment that is named as its task."""
    config_cls = dataclasses.make_dataclass(f"{task_cls.__name__}Config", [], bases=(SmallConfig,))
    task_factory.register_task_cls(config_cls)(task_cls)

    @exp_factory.register_config_factory(f"mistakes/{task_cls.__name__}")
    def build_experiment():
        return cfg.ExperimentConfig(
            task=config_cls(
                train_data=cfg.DataConfig(is_training=True, global_batch_size=4),
                validation_data=cfg.DataConfig(is_training=False, global_batch_size=4),
            ),
            trainer=cfg.TrainerConfig(
                optimizer_config={
                    "optimizer": {"type": "sgd"},
                    "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.1}},
                },
                train_steps=4,
                steps_per_loop=2,
                validation_interval=4,
            ),
            runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
        )

    return task_cls
