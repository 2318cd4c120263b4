import keras
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import base_task
from quintain.core.loop import trainer_setup
from quintain.settings import config_definitions as cfg


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


def check(dataset, num_steps):
    trainer_setup.check_evaluation_ends(dataset, num_steps)


def test_all_of_data_without_an_end_can_not_be_evaluated():
    data = tf.data.Dataset.range(3)

    with pytest.raises(
        errors.ConfigError, match=r"task\.validation_data: the data never end, .* -1"
    ):
        check(data.repeat(), -1)

    check(data.repeat(), 3)
    check(data, -1)
    check(data.repeat().take_while(lambda number: True), -1)  # Not known to be endless.
