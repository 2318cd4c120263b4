import pytest
import tensorflow as tf
from tensorflow.python.ops import gen_random_ops

from quintain.trials import repeatable_random


def draw(step):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with repeatable_random.stepwise(tf.constant(step, tf.int64)):
            values = tf.compat.v1.random_uniform([3], seed=7)
        return session.run(values).tolist()


def test_a_step_draws_the_same_again_and_another_step_other_numbers():
    assert draw(5) == draw(5)
    assert draw(5) != draw(6)


def test_tensorflow_is_as_before_after_a_block_that_fails():
    before = vars(gen_random_ops).copy()

    with pytest.raises(ZeroDivisionError):
        _fail_within(repeatable_random.stepwise(tf.constant(0, tf.int64)))

    assert vars(gen_random_ops) == before


def _fail_within(block):
    with block:
        raise ZeroDivisionError
