import pytest
import tensorflow as tf

from quintain.orbit import step_timer


@pytest.fixture
def step():
    return tf.Variable(10, dtype=tf.int64)


@pytest.fixture
def make_timer(step):
    return lambda *secs: step_timer.StepTimer(step, clock=iter(secs).__next__)


def test_measures_from_the_last_measurement(step, make_timer):
    timer = make_timer(0.0, 2.0, 3.0)
    step.assign(14)
    first = timer.steps_per_second()
    step.assign(20)

    assert (first, timer.steps_per_second()) == (2.0, 6.0)


def test_measures_from_the_start_without_restart(step, make_timer):
    timer = make_timer(0.0, 2.0, 4.0)
    step.assign(14)
    first = timer.steps_per_second(restart=False)
    step.assign(18)

    assert (first, timer.steps_per_second(restart=False)) == (2.0, 2.0)


def test_is_zero_if_no_time_has_passed(make_timer):
    assert make_timer(1.0, 1.0).steps_per_second() == 0.0
