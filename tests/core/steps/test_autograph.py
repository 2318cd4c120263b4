"""AutoGraph: conversion of steps that users wrote a part of, and errors of traced functions."""

import keras
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core.steps import autograph
from quintain.modeling import token_metrics
from quintain.nlp.configs import translation as config
from quintain.nlp.tasks import translation
from quintain.run.fitting import keras_task


class OfAnother(translation.TranslationTask):
    """A task that someone else derives."""

    def build_losses(self, labels, model_outputs=None, aux_losses=None):
        return labels


class Mixin:
    """Knows nothing of tasks."""

    def weigh_replica(self, labels):
        return labels


class Mixed(Mixin, translation.TranslationTask):
    """A task whose method is that of another class."""


class Count(keras.metrics.Sum):
    """A metric that someone else derives."""


class Plain:
    """A metric that is not Keras'."""

    def update_state(self, labels):
        return labels


class CallsItself(keras.Sequential):
    """A model whose call is not Keras'."""

    def __call__(self, inputs):
        return inputs


class TrainsItself(keras.Sequential):
    """A model with a step of its own, which `quintain.fit` calls."""

    def train_step(self, data):
        return {"loss": data}


class Optimizer(keras.optimizers.SGD):
    """An optimizer that someone else derives."""


def build(cls=translation.TranslationTask, **attributes):
    task = cls(config.TranslationConfig(), logging_dir="run")
    vars(task).update(attributes)
    return task


def is_converted(task=None, model=None, metrics=(), callers=()):
    """Traces a step, and returns whether AutoGraph has converted it."""
    found = []

    def step(value):
        try:
            _ = 1 if value > 0 else 2  # A tensor has a truth where AutoGraph has been.
            found.append(True)
        except tf.errors.OperatorNotAllowedInGraphError:
            found.append(False)

    parts = task or build(), model or keras.Sequential(), metrics, callers
    tf.function(lambda value: autograph.without_autograph(step, *parts)(value))(tf.constant(-3.0))
    return found[0]


def test_a_step_of_the_package_and_of_keras_is_not_converted():
    metrics = {"own": [token_metrics.TokenAccuracy(name="own")], "keras": keras.metrics.Sum()}

    assert not is_converted(metrics=metrics, callers=[build(), keras.optimizers.Adam()])


@pytest.mark.parametrize(
    "parts",
    [
        {"task": build(OfAnother)},
        {"task": build(Mixed)},
        {"task": build(build_losses=lambda labels: labels)},
        {"metrics": {"of_keras": [Count()]}},
        {"metrics": [Plain()]},
        {"model": tf.Module()},
        {"model": CallsItself()},
        {"callers": [build(OfAnother)]},
        {"callers": [Optimizer()]},
    ],
    ids=["class", "mixin", "object", "metric", "plain", "module", "call", "trainer", "optimizer"],
)
def test_a_step_that_users_wrote_a_part_of_is_converted(parts):
    assert is_converted(**parts)


def test_what_replaces_a_method_of_the_package_is_converted(monkeypatch):
    monkeypatch.setattr(translation.TranslationTask, "build_losses", OfAnother.build_losses)

    assert is_converted()


def raise_traced(error):
    def fail():
        raise error

    with autograph.errors_unwrapped():
        tf.function(lambda: fail())()


def test_the_step_of_a_keras_model_is_converted_if_a_user_wrote_it():
    task = keras_task.KerasModelTask(keras_task.KerasModelConfig(), logging_dir="run")
    replaced = keras.Sequential()
    replaced.test_step = lambda data: {"loss": data}

    assert not is_converted(task)
    assert is_converted(task, TrainsItself())
    assert is_converted(task, replaced)


@pytest.mark.parametrize("error", [errors.ConfigError("a.b: wrong"), errors.DataError("no file")])
def test_own_errors_come_out_as_they_were(error):
    with pytest.raises(type(error)) as caught:
        raise_traced(error)

    assert caught.value is error


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("y")])
def test_other_errors_are_left_alone(error):
    with pytest.raises(type(error)):
        raise_traced(error)
