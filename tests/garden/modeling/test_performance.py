import keras
import pytest
import tensorflow as tf

from quintain.garden.modeling import performance
from quintain.optimization import loss_scaling


@pytest.fixture(autouse=True)
def _policy_is_put_back():
    former = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(former)


@pytest.mark.parametrize(
    ("dtype", "policy"),
    [
        ("float16", "mixed_float16"),
        (tf.bfloat16, "mixed_bfloat16"),
        (tf.float32, "float32"),
    ],
)
def test_policies_have_float32_variables(dtype, policy):
    performance.set_mixed_precision_policy(dtype)

    assert keras.config.dtype_policy().name == policy
    assert keras.config.dtype_policy().variable_dtype == "float32"


@pytest.mark.parametrize("dtype", ["mixed_float16", "float64", None])
def test_other_policies_are_errors(dtype):
    with pytest.raises(ValueError, match="expected float16, bfloat16 or float32"):
        performance.set_mixed_precision_policy(dtype)


def test_a_loss_scale_belongs_to_the_optimizer():
    with pytest.raises(ValueError, match="configure_optimizer"):
        performance.set_mixed_precision_policy("float16", loss_scale=2.0)


@pytest.mark.parametrize("loss_scale", [None, "dynamic"])
def test_dynamic_loss_scale_wraps_the_optimizer(loss_scale):
    inner = keras.optimizers.SGD()

    optimizer = performance.configure_optimizer(inner, use_float16=True, loss_scale=loss_scale)

    assert isinstance(optimizer, loss_scaling.LossScaleOptimizer)
    assert optimizer.inner_optimizer is inner


def test_fixed_loss_scale_multiplies_the_loss():
    optimizer = performance.configure_optimizer(keras.optimizers.SGD(), True, loss_scale=8.0)

    assert float(optimizer.scale_loss(tf.constant(0.5))) == 4.0


def test_without_float16_the_optimizer_stays_as_it_is():
    optimizer = keras.optimizers.SGD()

    assert performance.configure_optimizer(optimizer, loss_scale="dynamic") is optimizer
    assert optimizer.loss_scale_factor is None


def test_a_wrong_loss_scale_is_an_error():
    with pytest.raises(ValueError, match="got 'big'"):
        performance.configure_optimizer(keras.optimizers.SGD(), True, loss_scale="big")
