import pytest
import tensorflow as tf

from quintain import errors
from quintain.core.loop import trainer_setup


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
