"""Registers `test/line`: a run of seconds, with dropout and shuffled data, for whole processes.

    quintain train --import=line_experiment --experiment=test/line ...

with this directory in `PYTHONPATH`.
"""

import dataclasses

import keras
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
    is_shuffled: bool = True
    dropout_rate: float = 0.1


@task_factory.register_task_cls(LineConfig)
class LineTask(base_task.Task):
    """Learns the sum of three numbers; counts what it was evaluated on."""

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
        config = self.task_config
        count = config.num_examples - (0 if params.is_training else 3)
        features = tf.random.stateless_normal([count, NUM_FEATURES], seed=(1, 2))
        labels = tf.reduce_sum(features, axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((tf.range(count), features, labels))
        if params.is_training and config.is_shuffled:
            dataset = dataset.shuffle(count, seed=params.seed, reshuffle_each_iteration=True)
        if params.is_training and not config.is_finite:
            dataset = dataset.repeat()
        size = params.global_batch_size
        if input_context is not None:
            # Consecutive examples go around the workers, so that together they see the batches
            # that one worker would.
            num_workers = input_context.num_input_pipelines
            dataset = dataset.shard(num_workers, input_context.input_pipeline_id)
            size //= input_context.num_replicas_in_sync
        return dataset.batch(size)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - tf.cast(model_outputs, tf.float32)))

    def build_metrics(self, training=True):
        return [keras.metrics.MeanAbsoluteError(name="absolute_error")]

    def train_step(self, inputs, model, optimizer, metrics=None):
        return super().train_step(inputs[1:], model, optimizer, metrics)

    def validation_step(self, inputs, model, metrics=None):
        logs = super().validation_step(inputs[1:], model, metrics)
        return logs | {"ids": inputs[0]}

    def aggregate_logs(self, state=None, step_outputs=None):
        return (state or []) + [int(number) for part in step_outputs["ids"] for number in part]

    def reduce_aggregated_logs(self, aggregated_logs, global_step=None):
        return {"num_seen": len(aggregated_logs), "num_distinct": len(set(aggregated_logs))}


@exp_factory.register_config_factory("test/line")
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
            validation_interval=40,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )
