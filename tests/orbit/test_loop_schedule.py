import pytest
import tensorflow as tf

from quintain.orbit import loop_schedule


def test_loop_ends_at_the_boundary():
    schedule = loop_schedule.LoopSchedule(100, None)

    assert schedule.next_loop_steps(0, 250) == 100
    assert schedule.next_loop_steps(200, 250) == 50


def test_rest_of_an_interrupted_loop_comes_first():
    position = tf.Variable(0, dtype=tf.int64)
    loop_schedule.LoopSchedule(100, position).set_steps_left(30)

    restarted = loop_schedule.LoopSchedule(100, position)

    assert restarted.next_loop_steps(70, 1000) == 30
    restarted.set_steps_left(0)
    assert restarted.next_loop_steps(100, 1000) == 100


def test_no_loop_crosses_a_boundary_not_even_the_rest_of_an_interrupted_one():
    position = tf.Variable(0, dtype=tf.int64)
    schedule = loop_schedule.LoopSchedule(100, position, boundaries=(80, 85))
    schedule.set_steps_left(30)

    assert schedule.next_loop_steps(70, 1000) == 10
    assert schedule.next_loop_steps(80, 1000) == 5
    schedule.set_steps_left(0)
    assert schedule.next_loop_steps(85, 1000) == 100


@pytest.mark.parametrize(
    ("step", "interval", "expected"),
    [(0, 10, 10), (9, 10, 10), (10, 10, 20), (20, 10, 25), (3, None, 25), (3, 100, 25)],
)
def test_next_evaluation_is_a_multiple_of_the_interval_or_the_end(step, interval, expected):
    assert loop_schedule.next_evaluation_step(step, 25, interval) == expected


@pytest.mark.parametrize(
    ("step", "interval", "expected"),
    [(10, 10, True), (11, 10, False), (25, 10, True), (5, None, False)],
)
def test_evaluation_steps_are_the_multiples_and_the_end(step, interval, expected):
    assert loop_schedule.is_evaluation_step(step, 25, interval) is expected
