import keras
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import base_trainer, task_factory

NORMS = {"trainer": {"norm_summaries": True}}


def build_trainer(params, optimizer=None):
    task = task_factory.get_task(params.task)
    optimizer = optimizer or task.create_optimizer(params.trainer.optimizer_config, params.runtime)
    return base_trainer.Trainer(params, task, task.build_model(), optimizer, evaluate=False)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_norms_are_logged_if_asked(line_params, dtype):
    params = line_params(NORMS | {"runtime": {"mixed_precision_dtype": dtype}})
    params.override({"trainer": {"optimizer_config": {"ema": {}}}})

    logs = build_trainer(params).train(tf.constant(3))

    assert 0 < logs["gradient_norm"] < 1e4
    assert 0 < logs["update_norm"] < 1.0


def test_norms_are_not_logged_otherwise(line_params):
    logs = build_trainer(line_params()).train(tf.constant(2))

    assert "gradient_norm" not in logs


@pytest.mark.slow
def test_an_optimizer_that_can_not_measure_norms_is_refused(line_params):
    with pytest.raises(errors.ConfigError, match=r"trainer\.norm_summaries: got True"):
        build_trainer(line_params(NORMS), keras.optimizers.SGD())
