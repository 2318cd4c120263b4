"""What of a step AutoGraph writes anew: what users wrote, and nothing else."""

import functools
import threading
import types

import keras
import pytest
import tensorflow as tf

from quintain.core import base_task
from quintain.core.steps import own_code
from quintain.nlp.configs import translation as config
from quintain.nlp.metrics import token_mean
from quintain.nlp.tasks import translation


def choose(value):
    """What nothing but AutoGraph makes a graph of."""
    if value > 0:
        return value
    return -value


class OfAnother(translation.TranslationTask):
    """A task that someone else derives."""

    def build_losses(self, labels, model_outputs=None, aux_losses=None):
        return choose(labels)


class Mixin:
    """Knows nothing of tasks."""

    def build_losses(self, labels, model_outputs=None, aux_losses=None):
        return choose(labels)


class Mixed(Mixin, translation.TranslationTask):
    """A task whose method is that of another class."""


class WithStaticMethod(translation.TranslationTask):
    """A task that needs no `self`."""

    @staticmethod
    def build_losses(labels):
        return choose(labels)


class WithClassMethod(translation.TranslationTask):
    """A task that needs its class."""

    @classmethod
    def build_losses(cls, labels):
        return choose(labels)


def decorated(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


class WithDecorator(translation.TranslationTask):
    """A task with a function around its method."""

    @decorated
    def build_losses(self, labels):
        return choose(labels)


class WithTfFunction(translation.TranslationTask):
    """A task whose method is a graph of its own."""

    @tf.function
    def build_losses(self, labels):
        return choose(labels)


class WithProperty(translation.TranslationTask):
    """A task that looks its function up."""

    @property
    def build_losses(self):
        return choose


class WithSuper(OfAnother):
    """A task that adds something to that of another."""

    def build_losses(self, labels, model_outputs=None, aux_losses=None):
        return choose(super().build_losses(labels) - 1)


class OfThePackage(translation.TranslationTask):
    """A task that takes a method from elsewhere in the package."""

    build_losses = base_task.Task.build_losses


class Loss:
    """A loss that is an object."""

    def __call__(self, labels, model_outputs=None, aux_losses=None):
        return choose(labels)


class Count(keras.metrics.Sum):
    """A metric that someone else derives."""

    def update_state(self, labels, outputs=None, sample_weight=None):
        super().update_state(choose(labels))


class Choice(token_mean.TokenMean):
    """A metric that someone derives from one of the package."""

    def measure(self, y_true, y_pred):
        return choose(y_pred)


class Plain:
    """A metric that is not Keras'."""

    def update_state(self, labels):
        return choose(labels)


class CallsItself(keras.Sequential):
    """A model whose call is not Keras'."""

    def __call__(self, inputs):
        return choose(inputs)


class Optimizer(keras.optimizers.SGD):
    """An optimizer that someone else derives."""


MODEL = keras.Sequential()


def build(cls=translation.TranslationTask, **attributes):
    task = cls(config.TranslationConfig())
    vars(task).update(attributes)
    return task


def trace(call, task, model=MODEL, metrics=(), callers=()):
    """Traces a step that calls something with -3.

    Returns:
        What it gives, and whether the step was converted itself.
    """
    is_whole = []

    def step(value):
        try:
            _ = 1 if value > 0 else 2  # A tensor has a truth where AutoGraph has been.
            is_whole.append(True)
        except tf.errors.OperatorNotAllowedInGraphError:
            is_whole.append(False)
        return call(value)

    def run(value):
        return own_code.without_autograph(step, task, model, metrics, callers)(value)

    result = tf.function(run)(tf.constant(-3.0))
    return result if result is None else float(result), is_whole[0]


@pytest.mark.parametrize(
    ("cls", "result"),
    [
        (OfAnother, 3),
        (Mixed, 3),
        (WithStaticMethod, 3),
        (WithClassMethod, 3),
        (WithDecorator, 3),
        (WithTfFunction, 3),
        (WithSuper, 2),
    ],
)
def test_what_a_class_overrides_is_converted_alone(cls, result):
    task = build(cls)
    attributes = set(vars(task))

    assert trace(lambda value: task.build_losses(value), task) == (result, False)
    assert set(vars(task)) == attributes


@pytest.mark.parametrize(
    "replacement",
    [choose, functools.partial(choose), Loss(), functools.partial(Mixin.build_losses, None)],
    ids=["function", "partial", "object", "method"],
)
def test_what_stands_in_the_place_of_a_method_is_converted(replacement):
    task = build(build_losses=replacement)

    assert trace(lambda value: task.build_losses(value), task) == (3, False)
    assert vars(task)["build_losses"] is replacement


def test_a_bound_method_stays_one():
    task = build(OfAnother)
    task.build_losses = types.MethodType(Mixin.build_losses, task)

    def call(value):
        assert task.build_losses.__self__ is task
        assert task.build_losses.__qualname__ == "Mixin.build_losses"
        return task.build_losses(value)

    assert trace(call, task) == (3, False)


def test_what_replaces_a_method_of_the_package_is_converted(monkeypatch):
    monkeypatch.setattr(translation.TranslationTask, "build_losses", OfAnother.build_losses)
    task = build()

    assert trace(lambda value: task.build_losses(value), task) == (3, False)


def test_methods_of_the_package_are_not_converted():
    for task in (build(), build(OfAnother), build(OfThePackage)):

        def call(value, task=task):
            assert not {"split_inputs", "weigh_replica"} & set(vars(task))
            return value

        assert trace(call, task) == (-3, False)


def test_an_update_of_a_metric_is_converted_alone():
    count, plain = Count(), Plain()

    def call(value):
        count.update_state(value)
        return plain.update_state(value)

    assert trace(call, build(), metrics={"of_keras": [count], "plain": plain}) == (3, False)
    assert float(count.result()) == 3
    assert not vars(plain)


def test_what_a_metric_of_the_package_calls_is_converted():
    metric = Choice(name="choice")

    def call(value):
        metric.update_state(value, value)

    assert trace(call, build(), metrics=[metric]) == (None, False)
    assert float(metric.result()) == 3
    assert "measure" not in vars(metric)


def test_what_a_step_puts_on_a_task_stays_there():
    task = build(OfAnother)

    def call(value):
        task.build_losses = Loss()
        return value

    trace(call, task)
    assert isinstance(task.build_losses, Loss)


@pytest.mark.parametrize(
    "parts",
    [
        {"task": build(WithProperty)},
        {"model": tf.Module()},
        {"model": CallsItself()},
        {"callers": [build(OfAnother)]},
        {"callers": [Optimizer()]},
    ],
    ids=["property", "module", "call", "trainer", "optimizer"],
)
def test_all_is_converted_where_the_border_is_not_seen(parts):
    assert trace(lambda value: value, **{"task": build(), **parts}) == (-3, True)


def test_callers_of_the_package_and_of_keras_are_not_converted():
    callers = [build(), keras.optimizers.Adam()]
    assert trace(lambda value: value, build(), callers=callers) == (-3, False)


def test_nothing_is_converted_where_the_user_wants_it_so():
    task = build(OfAnother)

    @tf.autograph.experimental.do_not_convert
    def run():
        step = own_code.without_autograph(task.build_losses, task, MODEL, ())
        return step(tf.constant(-3.0))

    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.function(run)()


def test_an_error_leaves_the_task_as_it_was():
    task = build(OfAnother)
    attributes = dict(vars(task))

    with pytest.raises(ZeroDivisionError):
        own_code.without_autograph(lambda: 1 / 0, task, MODEL, ())()
    assert vars(task) == attributes


def test_two_threads_share_a_task():
    task = build(OfAnother)
    results = []
    is_inside, is_left = threading.Event(), threading.Event()

    def wait(value):
        is_inside.set()
        is_left.wait(60)
        return task.build_losses(value)

    thread = threading.Thread(target=lambda: results.append(trace(wait, task)))
    thread.start()
    is_inside.wait(60)
    assert trace(lambda value: task.build_losses(value), task) == (3, False)
    is_left.set()
    thread.join()
    assert results == [(3, False)]
    assert "build_losses" not in vars(task)
