import dataclasses
import inspect

import pytest
import tensorflow as tf

from quintain.core import task_factory
from quintain.run import run_options, train_lib


def test_run_experiment_takes_every_option_but_those_of_the_command_with_the_same_default():
    parameters = inspect.signature(train_lib.run_experiment).parameters
    options = {field.name: field.default for field in dataclasses.fields(run_options.RunOptions)}
    del options["profile"], options["on_start"], options["stand_by"], options["memory"]

    assert {name: parameters[name].default for name in options} == options


def test_a_mistyped_option_is_refused_by_its_name(tmp_path, line_params):
    params = line_params({"trainer": {"train_steps": 5}})
    strategy, task = tf.distribute.get_strategy(), task_factory.get_task(params.task)

    with pytest.raises(TypeError, match="save_sumary"):
        train_lib.OrbitExperimentRunner(
            strategy, task, "train", params, str(tmp_path), save_sumary=False
        )
