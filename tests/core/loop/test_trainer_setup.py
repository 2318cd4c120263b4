import keras
import pytest
import tensorflow as tf

from quintain.core import base_task
from quintain.core import config_definitions as cfg
from quintain.core.loop import trainer_setup


class Unlabelled(base_task.Task):
    def build_inputs(self, params, input_context=None):
        raise AssertionError("The test gives the data.")

    def split_inputs(self, inputs):
        return inputs, None


@pytest.mark.parametrize(("metric", "is_built"), [("mse", True), ("accuracy", False)])
def test_metrics_of_unknown_labels_are_left_to_the_steps_that_know_them(metric, is_built):
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(2)])
    model.compile(metrics=[metric])
    data = tf.data.Dataset.from_tensors(tf.ones([3, 2]))
    assert trainer_setup.needs_batch(model)

    strategy = tf.distribute.get_strategy()
    trainer_setup.build_from_batch(model, Unlabelled(cfg.TaskConfig()), data, strategy)

    assert trainer_setup.needs_batch(model) is not is_built
