import logging

import keras
import pytest
import tensorflow as tf

from quintain.garden.modeling import grad_utils
from quintain.optimization.rules import sgd

# What happens on several replicas is in tests/core/test_two_replicas.py.


def _minimize(loss_fn, variables, **kwargs):
    optimizer = sgd.SGD(1.0)
    optimizer.build(variables)
    with tf.GradientTape() as tape:
        loss = loss_fn()
    grad_utils.minimize_using_explicit_allreduce(tape, optimizer, loss, variables, **kwargs)
    return optimizer


def test_a_step_goes_down_the_gradient_and_counts():
    variable = keras.Variable(3.0)

    optimizer = _minimize(lambda: variable.value**2, [variable])

    assert float(variable.value) == 3.0 - 6.0
    assert int(optimizer.iterations) == 1


def test_callbacks_run_in_their_order():
    variable = keras.Variable(3.0)
    seen = []

    def note(name):
        def callback(pairs):
            pairs = [(gradient + 1.0, variable) for gradient, variable in pairs]
            seen.append((name, float(pairs[0][0])))
            return pairs

        return callback

    _minimize(
        lambda: variable.value**2,
        [variable],
        pre_allreduce_callbacks=[note("first"), note("second")],
        post_allreduce_callbacks=[note("third")],
    )

    assert seen == [("first", 7.0), ("second", 8.0), ("third", 9.0)]
    assert float(variable.value) == 3.0 - 9.0


def test_variables_without_a_gradient_are_left_out_with_a_warning(caplog):
    used, unused = keras.Variable(1.0), keras.Variable(5.0, name="unused")

    with caplog.at_level(logging.WARNING):
        _minimize(lambda: 2.0 * used.value, [used, unused])

    assert float(used.value) == -1.0
    assert float(unused.value) == 5.0
    assert "unused" in caplog.text


def test_a_loss_that_depends_on_nothing_is_an_error():
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        _minimize(lambda: tf.constant(1.0), [keras.Variable(1.0)])
