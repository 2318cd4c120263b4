import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.schedules import lr_schedule

_OFFSET = 10
_STEPS = [0, 1, 2, 9, 10, 11, 12, 25, 50, 59, 60, 61, 99, 109, 110, 111, 500, 100_000, 10**7]


def _stepwise(step):
    return [0.5, 0.2, 0.1][(step > 1) + (step > 50)]


def _exponential(step):
    return 0.5 * 0.9 ** (step / 50)


def _staircase(step):
    return 0.5 * 0.9 ** (step // 50)


def _polynomial(step):
    return (0.5 - 0.01) * (1 - min(step, 100) / 100) ** 2 + 0.01


def _cycle(step):
    period = 50 * max(math.ceil(step / 50), 1)
    return (0.5 - 0.01) * (1 - step / period) + 0.01


def _cosine(step):
    return 0.5 * ((1 - 0.1) * 0.5 * (1 + math.cos(math.pi * min(step, 100) / 100)) + 0.1)


_SCHEDULES = {
    "stepwise": (
        lr_schedule.PiecewiseConstantDecayWithOffset([1, 50], [0.5, 0.2, 0.1], offset=_OFFSET),
        _stepwise,
    ),
    "exponential": (
        lr_schedule.ExponentialDecayWithOffset(0.5, 50, 0.9, offset=_OFFSET),
        _exponential,
    ),
    "staircase": (
        lr_schedule.ExponentialDecayWithOffset(0.5, 50, 0.9, staircase=True, offset=_OFFSET),
        _staircase,
    ),
    "polynomial": (
        lr_schedule.PolynomialDecayWithOffset(
            0.5, 100, end_learning_rate=0.01, power=2, offset=_OFFSET
        ),
        _polynomial,
    ),
    "cycle": (
        lr_schedule.PolynomialDecayWithOffset(
            0.5, 50, end_learning_rate=0.01, cycle=True, offset=_OFFSET
        ),
        _cycle,
    ),
    "cosine": (
        lr_schedule.CosineDecayWithOffset(0.5, 100, alpha=0.1, offset=_OFFSET),
        _cosine,
    ),
    "power": (
        lr_schedule.DirectPowerDecay(0.5, -0.5),
        lambda step: 0.5 * max(step + _OFFSET, 1) ** -0.5,
    ),
    "inverse time": (
        lr_schedule.InverseTimeDecay(0.5, 0.25),
        lambda step: 0.5 / (1 + 0.25 * (step + _OFFSET)),
    ),
    "inverse time of a schedule": (
        lr_schedule.InverseTimeDecay(lr_schedule.DirectPowerDecay(0.5, -1.0), 0.25),
        lambda step: 0.5 / max(step + _OFFSET, 1) / (1 + 0.25 * (step + _OFFSET)),
    ),
}
_EVERY_SCHEDULE = pytest.mark.parametrize(
    ("schedule", "closed_form"), _SCHEDULES.values(), ids=_SCHEDULES
)


@_EVERY_SCHEDULE
def test_every_schedule_from_its_offset_on_equals_its_closed_form(schedule, closed_form):
    steps = [step for step in _STEPS if step >= _OFFSET]

    rates = [float(schedule(step)) for step in steps]

    expected = [closed_form(step - _OFFSET) for step in steps]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["stepwise", "exponential", "polynomial", "cycle", "cosine"])
def test_a_schedule_keeps_its_first_value_before_its_offset(name):
    schedule, closed_form = _SCHEDULES[name]

    rates = [float(schedule(step)) for step in range(_OFFSET)]

    np.testing.assert_allclose(rates, closed_form(0), rtol=1e-6)


@_EVERY_SCHEDULE
def test_every_schedule_is_finite_and_not_negative_at_every_step(schedule, closed_form):
    del closed_form

    rates = tf.map_fn(schedule, tf.constant(_STEPS, tf.int64), fn_output_signature=tf.float32)

    assert bool(tf.reduce_all(tf.math.is_finite(rates) & (rates >= 0.0)))


@_EVERY_SCHEDULE
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_every_schedule_is_the_same_in_a_graph(schedule, closed_form, jit_compile):
    del closed_form
    graph = tf.function(schedule, jit_compile=jit_compile)
    step = tf.constant(77, tf.int64)

    rate = graph(step)

    assert rate.dtype == tf.float32
    np.testing.assert_allclose(rate, schedule(77), rtol=1e-6)


@_EVERY_SCHEDULE
def test_every_schedule_comes_back_from_its_own_description(schedule, closed_form):
    del closed_form
    description = keras.saving.serialize_keras_object(schedule)

    restored = keras.saving.deserialize_keras_object(description)

    assert type(restored) is type(schedule)
    assert restored.get_config() == schedule.get_config()
    assert float(restored(77)) == float(schedule(77))


def test_a_schedule_takes_the_counter_of_an_optimizer():
    counter = keras.Variable(40, dtype="int64")

    rate = lr_schedule.DirectPowerDecay(1.0, -1.0)(counter)

    np.testing.assert_allclose(rate, 1 / 40, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: lr_schedule.CosineDecayWithOffset(0.1, 0), "decay_steps: got 0"),
        (lambda: lr_schedule.PolynomialDecayWithOffset(0.1, -5), "decay_steps: got -5"),
        (lambda: lr_schedule.PolynomialDecayWithOffset(0.1, 5, power=0), "power: got 0"),
        (lambda: lr_schedule.ExponentialDecayWithOffset(0.1, 5, 0.0), "decay_rate: got 0.0"),
        (lambda: lr_schedule.PiecewiseConstantDecayWithOffset([1], [0.1]), "len"),
        (lambda: lr_schedule.PiecewiseConstantDecayWithOffset([2, 2], [3, 2, 1]), "boundaries"),
        (lambda: lr_schedule.InverseTimeDecay(0.1, -1.0), "decay: got -1.0"),
    ],
)
def test_a_schedule_refuses_parameters_without_meaning(build, message):
    with pytest.raises(ValueError, match=message):
        build()
