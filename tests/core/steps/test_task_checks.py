import keras
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core.steps import task_checks


class TwoOfOneName:
    def build_metrics(self, training=True):
        del training
        return {"a": keras.metrics.Mean("score"), "b": [keras.metrics.Mean("score")]}

    def build_losses(self, labels, model_outputs, aux_losses=None):
        raise NotImplementedError


def test_two_metrics_of_one_name_are_refused_with_the_line_of_the_method():
    message = (
        r"TwoOfOneName.build_metrics gives 2 metrics of the name 'score'(.|\n)*test_task_checks"
    )
    with pytest.raises(errors.ConfigError, match=message):
        task_checks.build_metrics(TwoOfOneName(), None, training=True)


def test_a_loss_of_several_values_is_refused():
    with pytest.raises(errors.ConfigError, match=r"a tensor of shape \(3,\), expected a scalar"):
        task_checks.to_scalar(TwoOfOneName(), tf.zeros([3]))
