import logging
import math

import numpy as np
import pytest

from quintain.optimization.schedules import lr_schedule


def test_power_and_line_equals_its_closed_form():
    schedule = lr_schedule.PowerAndLinearDecay(1.0, 100, -1.0, 0.5, offset=90)

    rates = [float(schedule(step)) for step in (0, 90, 91, 130, 150, 190, 200, 10**7)]

    np.testing.assert_allclose(
        rates, [1.0, 1.0, 1.0, 1 / 40, 1 / 60 * 0.8, 0.0, 0.0, 0.0], rtol=1e-6, atol=0.0
    )


def test_power_and_line_without_a_line_never_ends():
    schedule = lr_schedule.PowerAndLinearDecay(1.0, 100, -1.0, 0.0)

    assert float(schedule(400)) == pytest.approx(1 / 400)


def test_a_line_of_the_whole_length_starts_at_the_full_rate():
    schedule = lr_schedule.PowerAndLinearDecay(1.0, 100, 0.0, 1.0)

    rates = [float(schedule(step)) for step in (0, 1, 40, 100)]

    np.testing.assert_allclose(rates, [1.0, 0.99, 0.6, 0.0], rtol=1e-6)


def test_power_with_offset_holds_and_limits():
    schedule = lr_schedule.PowerDecayWithOffset(8.0, -1.0, 10, 3.0)

    rates = [float(schedule(step)) for step in (0, 9, 10, 11, 12, 14, 20)]

    np.testing.assert_allclose(rates, [3.0, 3.0, 3.0, 3.0, 3.0, 2.0, 0.8], rtol=1e-6)


def test_power_without_an_offset_holds_nothing(caplog):
    with caplog.at_level(logging.WARNING):
        schedule = lr_schedule.PowerDecayWithOffset(1.0, -1.0)

    assert [float(schedule(step)) for step in (0, 1, 4)] == [1.0, 1.0, 0.25]
    assert not caplog.records


def test_a_million_as_the_learning_rate_of_the_first_steps_is_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        lr_schedule.PowerDecayWithOffset(1.0, -1.0, offset=5)

    assert "learning rate of the first 5 steps" in caplog.text


def test_step_cosine_reaches_every_value_at_its_boundary_and_keeps_the_last_one():
    schedule = lr_schedule.StepCosineDecayWithOffset([10, 20, 40], [1.0, 0.5, 0.1], offset=5)

    rates = [float(schedule(step)) for step in (0, 15, 20, 25, 35, 45, 46, 10**7)]

    slow = 0.1 + 0.4 * (1 + math.cos(math.pi / 2)) / 2
    np.testing.assert_allclose(rates, [1.0, 1.0, 0.75, 0.5, slow, 0.1, 0.1, 0.1], rtol=1e-6)


def test_step_cosine_of_one_value_is_constant():
    schedule = lr_schedule.StepCosineDecayWithOffset([0], [0.5])

    assert [float(schedule(step)) for step in (0, 1, 1000)] == [0.5] * 3


@pytest.mark.parametrize(
    ("shape", "middle"),
    [("linear", 0.55), ("cosine", 0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2), ("1-sqrt", 0.55)],
)
def test_stable_decay_holds_and_then_falls_in_its_shape(shape, middle):
    schedule = lr_schedule.WarmupStableDecay(
        1.0, 80, 20, end_learning_rate=0.1, decay_shape=shape, offset=5
    )
    step = 85 + 20 * {"linear": 0.5, "cosine": 0.25, "1-sqrt": 0.25}[shape]

    rates = [float(schedule(step)) for step in (0, 84, 85, step, 105, 106, 10**7)]

    np.testing.assert_allclose(rates, [1.0, 1.0, 1.0, middle, 0.1, 0.1, 0.1], rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: lr_schedule.PowerAndLinearDecay(1.0, 0), "total_decay_steps: got 0"),
        (lambda: lr_schedule.PowerAndLinearDecay(1.0, 5, 1.0, 1.5), "linear_decay_fraction"),
        (lambda: lr_schedule.StepCosineDecayWithOffset([], []), "len"),
        (lambda: lr_schedule.StepCosineDecayWithOffset([1], [1.0, 2.0]), "len"),
        (lambda: lr_schedule.StepCosineDecayWithOffset([2, 2], [1.0, 2.0]), "boundaries"),
        (lambda: lr_schedule.WarmupStableDecay(1.0, -1, 5), "stable_steps: got -1"),
        (lambda: lr_schedule.WarmupStableDecay(1.0, 5, 0), "decay_steps: got 0"),
        (
            lambda: lr_schedule.WarmupStableDecay(1.0, 5, 5, decay_shape="linaer"),
            "decay_shape: got 'linaer'.*Did you mean 'linear'",
        ),
    ],
)
def test_a_schedule_refuses_parameters_without_meaning(build, message):
    with pytest.raises(ValueError, match=message):
        build()
