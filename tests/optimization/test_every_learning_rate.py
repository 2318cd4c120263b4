"""What holds for every learning rate that a config can choose, with every warm-up."""

import dataclasses
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import optimization
from quintain.optimization import optimizer_factory

_OFFSET = 7
_RATES = {
    "constant": {"learning_rate": 0.5},
    "stepwise": {"boundaries": [10, 40], "values": [0.5, 0.2, 0.1], "offset": _OFFSET},
    "exponential": {
        "initial_learning_rate": 0.5,
        "decay_steps": 20,
        "decay_rate": 0.5,
        "offset": _OFFSET,
    },
    "polynomial": {"initial_learning_rate": 0.5, "decay_steps": 60, "power": 2.0},
    "cosine": {"initial_learning_rate": 0.5, "decay_steps": 60, "alpha": 0.1, "offset": _OFFSET},
    "power": {"initial_learning_rate": 0.5},
    "power_linear": {
        "initial_learning_rate": 0.5,
        "total_decay_steps": 60,
        "linear_decay_fraction": 0.5,
        "offset": _OFFSET,
    },
    "power_with_offset": {
        "initial_learning_rate": 0.5,
        "offset": _OFFSET,
        "pre_offset_learning_rate": 0.4,
    },
    "step_cosine_with_offset": {
        "boundaries": [0, 30, 60],
        "values": [0.5, 0.1, 0.2],
        "offset": _OFFSET,
    },
    "wsd": {
        "initial_learning_rate": 0.5,
        "stable_steps": 30,
        "decay_steps": 30,
        "end_learning_rate": 0.05,
        "decay_shape": "1-sqrt",
        "offset": _OFFSET,
    },
}


def _wave(first, last, done):
    return last + (first - last) * (1 + math.cos(math.pi * done)) / 2


def _power_with_offset(step):
    return min(0.4, 0.5 * (step - _OFFSET) ** -0.5) if step > _OFFSET else 0.4


def _step_cosine(s):
    if s >= 60:
        return 0.2
    return _wave(0.5, 0.1, s / 30) if s < 30 else _wave(0.1, 0.2, (s - 30) / 30)


def _shift(formula):
    return lambda step: formula(max(step - _OFFSET, 0))


_CLOSED_FORMS = {
    "constant": lambda step: 0.5,
    "stepwise": _shift(lambda s: [0.5, 0.2, 0.1][(s > 10) + (s > 40)]),
    "exponential": _shift(lambda s: 0.5 ** (1 + s / 20)),
    "polynomial": lambda step: 0.4999 * (1 - min(step / 60, 1)) ** 2 + 0.0001,
    "cosine": _shift(lambda s: _wave(0.5, 0.05, min(s / 60, 1))),
    "power": lambda step: 0.5 * max(step, 1) ** -0.5,
    "power_linear": _shift(lambda s: 0.5 * max(s, 1) ** -0.5 * min(1.0, max(0.0, (60 - s) / 30))),
    "power_with_offset": _power_with_offset,
    "step_cosine_with_offset": _shift(_step_cosine),
    "wsd": _shift(lambda s: 0.05 + 0.45 * (1 - math.sqrt(min(max((s - 30) / 30, 0), 1)))),
}
_WARMUPS = {
    None: {},
    "linear": {"warmup_steps": 20, "warmup_learning_rate": 0.01},
    "polynomial": {"warmup_steps": 20, "power": 2.0},
}
_STEPS = [*range(110), 999, 100_000, 2**24 + 1, 10**9]
_EVERY_RATE = pytest.mark.parametrize("name", _RATES)
_EVERY_WARMUP = pytest.mark.parametrize("warmup", _WARMUPS)


def _build(name, warmup):
    config = optimization.OptimizationConfig(
        {
            "optimizer": {"type": "sgd"},
            "learning_rate": {"type": name, name: _RATES[name]},
            "warmup": {"type": warmup, **({warmup: _WARMUPS[warmup]} if warmup else {})},
        }
    )
    rate = optimizer_factory.OptimizerFactory(config).build_learning_rate()
    return rate if callable(rate) else lambda step: tf.constant(rate)


def _compute(name, warmup, step):
    after = _CLOSED_FORMS[name]
    if warmup is None or step >= 20:
        return after(step)
    if warmup == "linear":
        return 0.01 + (after(20) - 0.01) * step / 20
    return after(20) * (max(step, 1) / 20) ** 2


def test_there_is_a_closed_form_of_every_learning_rate_and_warmup():
    for config_cls, names in (
        (optimization.LrConfig, _RATES),
        (optimization.WarmupConfig, [name for name in _WARMUPS if name]),
    ):
        fields = {field.name for field in dataclasses.fields(config_cls)} - {"type"}
        assert fields == set(names)


@pytest.mark.long(
    "Every rate follows a warmup in every run, all pairs before a release", but=["linear"]
)
@_EVERY_RATE
@_EVERY_WARMUP
def test_every_combination_is_finite_not_negative_and_equal_to_its_closed_form(name, warmup):
    schedule = _build(name, warmup)

    map_fn = tf.function(tf.map_fn)
    rates = map_fn(schedule, tf.constant(_STEPS, tf.int64), fn_output_signature=tf.float32)

    assert np.isfinite(rates).all()
    assert (rates.numpy() >= 0.0).all()
    expected = [_compute(name, warmup, step) for step in _STEPS]
    np.testing.assert_allclose(rates, expected, rtol=5e-6, atol=1e-7)


@pytest.mark.long(
    "Every rate follows a warmup in every run, all pairs before a release", but=["linear"]
)
@_EVERY_RATE
@pytest.mark.parametrize("warmup", [name for name in _WARMUPS if name])
def test_every_combination_comes_back_from_its_own_description(name, warmup):
    schedule = _build(name, warmup)

    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    again = type(schedule).from_config(schedule.get_config())

    assert restored.get_config() == again.get_config() == schedule.get_config()
    for step in (0, 19, 20, 50, 1000):
        assert float(restored(step)) == float(again(step)) == float(schedule(step))


@_EVERY_RATE
def test_no_learning_rate_is_negative_or_nan_before_the_first_step(name):
    rates = [float(_build(name, None)(step)) for step in (-1000, -1)]

    np.testing.assert_allclose(rates, _compute(name, None, 0), rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["stepwise", "polynomial", "exponential", "cosine", "power_linear", "wsd"]
)
def test_an_offset_moves_the_same_class_without_an_offset(name):
    schedule = _build(name, None)
    config = schedule.get_config()
    base = type(schedule).base_lr_class(**(config | {"offset": 0}))

    offset = config["offset"]
    for step in range(10, 101, 10):
        assert float(schedule(step + offset)) == float(base(step))
