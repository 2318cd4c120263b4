import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.schedules import lr_schedule

_STEPS = [0, 1, 2, 10, 19, 20, 21, 50, 1000]


def _after(step):
    return 0.5 * max(step, 1) ** -0.5


def _linear(step):
    return 0.01 + (_after(20) - 0.01) * step / 20 if step < 20 else _after(step)


def _polynomial(step):
    return _after(20) * (max(step, 1) / 20) ** 2 if step < 20 else _after(step)


_DECAY = lr_schedule.DirectPowerDecay(0.5, -0.5)
_WARMUPS = {
    "linear": (lr_schedule.LinearWarmup(_DECAY, 20, warmup_learning_rate=0.01), _linear),
    "polynomial": (lr_schedule.PolynomialWarmUp(_DECAY, 20, power=2.0), _polynomial),
    "no linear": (lr_schedule.LinearWarmup(_DECAY, 0, warmup_learning_rate=0.01), _after),
    "no polynomial": (lr_schedule.PolynomialWarmUp(_DECAY, 0), _after),
    "to a constant": (
        lr_schedule.LinearWarmup(0.5, 20),
        lambda step: 0.5 * min(step / 20, 1.0),
    ),
}
_EVERY_WARMUP = pytest.mark.parametrize(("warmup", "closed_form"), _WARMUPS.values(), ids=_WARMUPS)


@_EVERY_WARMUP
def test_every_warmup_equals_its_closed_form(warmup, closed_form):
    rates = [float(warmup(step)) for step in _STEPS]

    np.testing.assert_allclose(rates, [closed_form(step) for step in _STEPS], rtol=1e-6)


@_EVERY_WARMUP
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_every_warmup_is_the_same_in_a_graph(warmup, closed_form, jit_compile):
    graph = tf.function(warmup, jit_compile=jit_compile)

    rates = [float(graph(tf.constant(step, tf.int64))) for step in (0, 7, 20, 21)]

    np.testing.assert_allclose(rates, [closed_form(step) for step in (0, 7, 20, 21)], rtol=1e-6)


@_EVERY_WARMUP
def test_every_warmup_comes_back_from_its_own_description(warmup, closed_form):
    del closed_form
    description = keras.saving.serialize_keras_object(warmup)

    restored = keras.saving.deserialize_keras_object(description)

    assert restored.get_config() == warmup.get_config()
    assert [float(restored(step)) for step in _STEPS] == [float(warmup(step)) for step in _STEPS]


def test_a_warmup_refuses_a_negative_length():
    with pytest.raises(ValueError, match="warmup_steps: got -1"):
        lr_schedule.LinearWarmup(0.1, -1)
