import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.optimization import gradient_clipping

_GRADIENTS = [tf.constant([3.0, -4.0]), tf.constant([[12.0]])]


def _clip(**limits):
    clipped = gradient_clipping.GradientClipping(**limits).clip(_GRADIENTS)
    return [part.numpy().ravel().tolist() for part in clipped]


def test_without_limits_gradients_stay_as_they_are():
    assert _clip() == [[3.0, -4.0], [12.0]]


def test_a_limit_on_values_holds_for_every_number():
    assert _clip(value=3.5) == [[3.0, -3.5], [3.5]]


def test_a_limit_on_the_norm_holds_for_each_gradient():
    first, second = _clip(norm=10.0)

    assert first == [3.0, -4.0]
    np.testing.assert_allclose(second, [10.0], rtol=1e-6)


def test_a_limit_on_the_global_norm_scales_all_gradients_together():
    first, second = _clip(global_norm=6.5)

    np.testing.assert_allclose([*first, *second], [1.5, -2.0, 6.0], rtol=1e-6)


def test_a_global_norm_below_its_limit_changes_nothing():
    assert _clip(global_norm=13.0) == [[3.0, -4.0], [12.0]]


def test_zero_gradients_stay_zero():
    (clipped,) = gradient_clipping.clip_by_global_norm([tf.zeros(3)], 1.0)

    assert clipped.numpy().tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("fault", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_a_gradient_that_is_not_finite_is_not_hidden(fault, jit_compile):
    clip = tf.function(gradient_clipping.clip_by_global_norm, jit_compile=jit_compile)

    clipped = clip([tf.constant([fault]), tf.constant([1.0])], 1.0)

    assert all(np.isnan(part).all() for part in clipped)


@pytest.mark.parametrize("name", ["norm", "value", "global_norm"])
@pytest.mark.parametrize("limit", [0.0, -1.0, np.nan, np.inf])
def test_a_limit_that_is_not_positive_is_an_error(name, limit):
    with pytest.raises(errors.ConfigError, match="expected None or a number > 0"):
        gradient_clipping.GradientClipping(**{name: limit})


def test_two_norms_can_not_be_limited_together():
    with pytest.raises(errors.ConfigError, match=r"clipnorm=1\.0, global_clipnorm=2\.0"):
        gradient_clipping.GradientClipping(norm=1.0, global_norm=2.0)
