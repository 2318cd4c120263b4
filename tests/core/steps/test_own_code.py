"""Which steps AutoGraph leaves as they are written."""

import types

import pytest
import tensorflow as tf

from quintain.core.steps import own_code
from quintain.nlp.configs import translation as config
from quintain.nlp.tasks import translation


class OfAnother(translation.TranslationTask):
    """A task that someone else derives."""

    def train_step(self, inputs, **parts):
        del parts
        if inputs > 0:  # Only AutoGraph makes a graph of it.
            return inputs
        return -inputs


def build(cls=translation.TranslationTask):
    return cls(config.TranslationConfig())


def is_converted(*objects):
    def step():
        return 1 if tf.constant(1) > 0 else 2  # Without conversion a tensor has no truth.

    try:
        tf.function(own_code.without_autograph(step, *objects))()
    except tf.errors.OperatorNotAllowedInGraphError:
        return False
    return True


def test_a_step_of_the_package_alone_is_not_converted():
    assert not is_converted(build())


def test_a_derived_class_is_converted():
    assert is_converted(build(OfAnother))
    assert is_converted(build(), build(OfAnother))
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.function(OfAnother.train_step, autograph=False)(None, tf.constant(1))


def test_a_replaced_method_is_converted(monkeypatch):
    task = build()
    task.build_losses = types.MethodType(OfAnother.train_step, task)
    assert is_converted(task)

    monkeypatch.setattr(translation.TranslationTask, "build_losses", OfAnother.train_step)
    assert is_converted(build())
