import inspect

import pytest
import tensorflow as tf

from quintain.core import base_trainer, task_factory
from quintain.input.diagnosis import random_watch


@tf.function
def _draw_inside(value):
    return value + tf.random.normal([])


def _draw_in_a_loop(count):
    for _ in tf.range(count):
        tf.print(_draw_inside(1.0))


def _draw_from_seeds():
    return tf.random.stateless_uniform([], [1, 2])


def test_an_operation_that_keeps_its_state_is_found_with_the_line_that_made_it():
    graph = tf.function(_draw_in_a_loop).get_concrete_function(3).graph

    found = random_watch.find_draws(graph)

    line = inspect.getsourcelines(_draw_inside.python_function)[1] + 2
    assert found == [
        f"RandomStandardNormal ({__file__}:{line}: return value + tf.random.normal([]))"
    ]


def test_an_operation_without_a_state_is_none():
    assert (
        random_watch.find_draws(tf.function(_draw_from_seeds).get_concrete_function().graph) == []
    )


@pytest.fixture
def noisy_trainer(line_params, monkeypatch):
    params = line_params()
    task = task_factory.get_task(params.task)
    train_step, build_inputs = task.train_step, task.build_inputs

    def noisy_step(inputs, **kwargs):
        features, labels = inputs
        return train_step((features + tf.random.uniform([]), labels), **kwargs)

    def noisy_inputs(data, input_context=None):
        return build_inputs(data).map(
            lambda features, labels: (features + tf.random.uniform([]), labels),
            num_parallel_calls=2,
        )

    monkeypatch.setattr(task, "train_step", noisy_step)
    monkeypatch.setattr(task, "build_inputs", noisy_inputs)
    optimizer = task.create_optimizer(params.trainer.optimizer_config)
    return base_trainer.Trainer(params, task, task.build_model(), optimizer, evaluate=False)


@pytest.mark.slow
def test_a_run_says_at_its_start_what_makes_its_continuation_inexact(noisy_trainer, caplog):
    at_start = [record.getMessage() for record in caplog.get_records("setup")]
    assert any("`map` draws random numbers (RandomUniform) for several" in one for one in at_start)

    noisy_trainer.train(tf.constant(1))
    noisy_trainer.train(tf.constant(2))

    assert caplog.text.count("draws random numbers whose state can't be stored") == 1
    assert "train_step((features + tf.random.uniform([])" in caplog.text
