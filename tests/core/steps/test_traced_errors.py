"""Errors as they leave a traced function."""

import pytest
import tensorflow as tf

from quintain import errors
from quintain.core.steps import traced_errors


def call(error):
    def fail():
        raise error

    with traced_errors.unwrapping():
        tf.function(lambda: fail())()


@pytest.mark.parametrize("error", [errors.ConfigError("a.b: wrong"), errors.DataError("no file")])
def test_own_errors_come_out_as_they_were(error):
    with pytest.raises(type(error)) as caught:
        call(error)

    assert caught.value is error


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("y")])
def test_other_errors_are_left_alone(error):
    with pytest.raises(type(error)):
        call(error)
