"""A line whose hidden layer gets wider from stage to stage, on larger and larger batches."""

import dataclasses

import keras
import pytest
import tensorflow as tf

from quintain.core import base_task, exp_factory, task_factory
from quintain.core.progressive import configs
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class WideConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=4)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=4)
    width: int = 8
    num_validation_examples: int = 9


class WideTask(base_task.Task):
    def build_model(self):
        width = self.task_config.width
        model = keras.Sequential(
            [keras.layers.Dense(width), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
        )
        model.build((None, 3))
        return model

    def grow_model(self, old_model, new_model):
        """The new units have random inputs, and no effect yet."""
        old, new = old_model.get_weights(), new_model.get_weights()
        width = old[0].shape[1]
        new[0][:, :width], new[1][:width] = old[0], old[1]
        new[2][:], new[3] = 0.0, old[3]
        new[2][:width] = old[2]
        new_model.set_weights(new)

    def build_inputs(self, params, input_context=None):
        count = 32 if params.is_training else self.task_config.num_validation_examples
        features = tf.random.stateless_normal([count, 3], seed=(1, 2))
        labels = tf.reduce_sum(features, axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels))
        if params.is_training:
            dataset = dataset.shuffle(count, seed=params.seed).repeat()
        return dataset.batch(params.global_batch_size)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))

    def aggregate_logs(self, state=None, step_outputs=None):
        return (state or 0) + 1

    def reduce_aggregated_logs(self, aggregated_logs, global_step=None):
        return {"batches": aggregated_logs}


def build_experiment():
    return cfg.ExperimentConfig(
        task=WideConfig(),
        trainer=configs.ProgressiveTrainerConfig(
            progressive=configs.ProgressiveConfig(
                stages=(
                    configs.StageConfig(
                        num_steps=7,
                        task={"width": 2, "validation_data": {"global_batch_size": 9}},
                    ),
                    configs.StageConfig(num_steps=8, task={"width": 4}),
                    configs.StageConfig(task={"train_data": {"global_batch_size": 8}}),
                )
            ),
            optimizer_config={
                "optimizer": {"type": "adam"},
                "learning_rate": {
                    "type": "polynomial",
                    "polynomial": {
                        "initial_learning_rate": 0.1,
                        "end_learning_rate": 0.0,
                        "decay_steps": 25,
                    },
                },
            },
            train_steps=25,
            steps_per_loop=5,
            summary_interval=5,
            checkpoint_interval=5,
            validation_interval=100,
            max_to_keep=0,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )


@pytest.fixture(autouse=True)
def _wide_task_is_registered():
    with task_factory.TASKS.temporarily(), exp_factory.EXPERIMENTS.temporarily():
        task_factory.register_task_cls(WideConfig)(WideTask)
        exp_factory.register_config_factory("test/wide")(build_experiment)
        yield


@pytest.fixture
def experiment():
    """Returns a function that builds the experiment with some fields overridden."""

    def build(overrides=None):
        params = build_experiment()
        params.override(overrides or {})
        return params

    return build
