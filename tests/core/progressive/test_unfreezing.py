import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.core import base_task, task_factory
from quintain.core.progressive import configs
from quintain.run import train_lib
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class FrozenConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=8)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=8)
    is_frozen: bool = False


class FrozenTask(base_task.Task):
    def build_model(self):
        keras.utils.set_random_seed(1)
        base = keras.layers.Dense(4, name="base", trainable=not self.task_config.is_frozen)
        return keras.Sequential([keras.Input((3,)), base, keras.layers.Dense(1, name="head")])

    def build_inputs(self, params, input_context=None):
        features = np.random.RandomState(0).normal(size=(32, 3)).astype("float32")
        labels = features.sum(axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(8)
        return dataset.repeat() if params.is_training else dataset

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))


def train(model_dir, num_steps):
    config = cfg.ExperimentConfig(
        task=FrozenConfig(),
        trainer=configs.ProgressiveTrainerConfig(
            progressive=configs.ProgressiveConfig(
                stages=(
                    configs.StageConfig(num_steps=10, task={"is_frozen": True}),
                    configs.StageConfig(),
                )
            ),
            optimizer_config={
                "optimizer": {"type": "adam"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.01}},
            },
            train_steps=num_steps,
            steps_per_loop=5,
            summary_interval=5,
            checkpoint_interval=5,
            validation_interval=100,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )
    train_lib.train_from_config(config, "train", str(model_dir), experiment="test/frozen")
    model = FrozenTask(FrozenConfig()).build_model()
    path = tf.train.latest_checkpoint(str(model_dir))
    tf.train.Checkpoint(model=model).restore(path).expect_partial()
    return model.get_weights()


@pytest.mark.long("test_train_lib.py beside it resumes stages in every run")
@pytest.mark.slow
def test_layers_are_unfrozen_within_a_run_which_goes_on_to_the_bit(tmp_path):
    with task_factory.TASKS.temporarily():
        task_factory.register_task_cls(FrozenConfig)(FrozenTask)
        initial = FrozenTask(FrozenConfig()).build_model().get_weights()

        frozen = train(tmp_path / "stopped", 10)
        stopped = train(tmp_path / "stopped", 20)
        whole = train(tmp_path / "whole", 20)

    kernel, _, head, _ = range(4)
    np.testing.assert_array_equal(frozen[kernel], initial[kernel])
    assert not np.array_equal(frozen[head], initial[head])
    assert not np.array_equal(whole[kernel], initial[kernel])
    for expected, found in zip(whole, stopped, strict=True):
        np.testing.assert_array_equal(found, expected)
