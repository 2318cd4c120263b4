"""Every way to write a step does the update of an optimizer that does not scale the loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.core import base_task
from quintain.garden.modeling import performance
from quintain.optimization import ema, gradient_accumulation, loss_scaling
from quintain.optimization.rules import sgd
from quintain.settings import config_definitions as cfg

FEATURES = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
LABELS = np.array([[1.0], [0.0]], "float32")
WEIGHTS = np.array([[0.5], [-0.25]], "float32")


class Line(base_task.Task):
    """The mean squared error of a line."""

    def build_inputs(self, params, input_context=None):
        raise NotImplementedError

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(tf.cast(model_outputs, tf.float32) - labels))


def run_task(model, optimizer):
    Line(cfg.TaskConfig()).train_step((FEATURES, LABELS), model, optimizer)


def run_reference(model, optimizer):
    """The reference's `Task.train_step`, as it is written there."""
    with tf.GradientTape() as tape:
        outputs = model(FEATURES, training=True)
        loss = scaled_loss = tf.reduce_mean(tf.square(tf.cast(outputs, tf.float32) - LABELS))
        if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
            scaled_loss = optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled_loss, [v.value for v in model.trainable_variables])
    if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
        gradients = optimizer.get_unscaled_gradients(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def run_by_hand(model, optimizer):
    with tf.GradientTape() as tape:
        outputs = tf.cast(model(FEATURES), tf.float32)
        loss = optimizer.scale_loss(tf.reduce_mean(tf.square(outputs - LABELS)))
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    optimizer.apply(gradients, model.trainable_variables)


def run_fit(model, optimizer):
    model.compile(optimizer, loss="mse")
    model.fit(FEATURES, LABELS, batch_size=2, verbose=0)


@pytest.fixture(params=["mixed_float16", "mixed_bfloat16"])
def policy(request):
    former = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(former)


def make_model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([WEIGHTS])
    return model


def expected_weights(policy, learning_rate):
    """The closed form, rounded as the policy does: all numbers here are exact in both types."""
    del policy
    residuals = FEATURES @ WEIGHTS - LABELS
    return WEIGHTS - learning_rate * FEATURES.T @ residuals


@pytest.mark.parametrize("run", [run_task, run_reference, run_by_hand, run_fit])
@pytest.mark.parametrize("loss_scale", [128, 100.0, 1.0, "dynamic", None])
def test_the_update_is_that_of_an_unscaled_optimizer(policy, loss_scale, run):
    model = make_model()
    optimizer = performance.configure_optimizer(
        sgd.SGD(0.5), use_float16=policy == "mixed_float16", loss_scale=loss_scale
    )

    run(model, optimizer)

    np.testing.assert_allclose(model.get_weights()[0], expected_weights(policy, 0.5), rtol=1e-3)


WRAPPERS = {
    "keras": lambda: keras.optimizers.SGD(0.5),
    "clipped": lambda: sgd.SGD(0.5, global_clipnorm=1e3),
    "average": lambda: ema.ExponentialMovingAverage(sgd.SGD(0.5)),
    "accumulation": lambda: gradient_accumulation.GradientAccumulation(sgd.SGD(0.5), 1),
    "accumulation of average": lambda: gradient_accumulation.GradientAccumulation(
        ema.ExponentialMovingAverage(sgd.SGD(0.5)), 1
    ),
}


@pytest.mark.parametrize("run", [run_task, run_reference])
@pytest.mark.parametrize("loss_scale", [128, "dynamic"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_it_is_so_around_every_wrapper(wrapper, loss_scale, run):
    model = make_model()
    optimizer = loss_scaling.scale_loss(WRAPPERS[wrapper](), loss_scale)

    run(model, optimizer)

    np.testing.assert_allclose(model.get_weights()[0], expected_weights("float32", 0.5), rtol=1e-6)


@pytest.mark.parametrize("run", [run_task, run_reference, run_by_hand])
@pytest.mark.parametrize("loss_scale", [128, "dynamic"])
def test_accumulated_batches_are_one_update(loss_scale, run):
    model = make_model()
    accumulation = gradient_accumulation.GradientAccumulation(sgd.SGD(0.5), 2)
    optimizer = loss_scaling.scale_loss(accumulation, loss_scale)

    with accumulation.accumulation_only():
        run(model, optimizer)
    run(model, optimizer)

    np.testing.assert_allclose(model.get_weights()[0], expected_weights("float32", 0.5), rtol=1e-6)


def test_an_overflow_in_an_accumulated_batch_skips_the_update_inside_of_the_scaling():
    weight = keras.Variable([1.0])
    accumulation = gradient_accumulation.GradientAccumulation(sgd.SGD(1.0), 2)
    optimizer = loss_scaling.LossScaleOptimizer(accumulation, initial_scale=8.0)

    for first, second in [(np.inf, 1.0), (4.0, 4.0)]:
        with accumulation.accumulation_only():
            optimizer.apply([tf.constant([first])], [weight])
        optimizer.apply([tf.constant([second])], [weight])

    assert weight.numpy().tolist() == [0.0]
    assert float(optimizer.dynamic_scale.numpy()) == 4.0


@pytest.mark.parametrize("loss_scale", [8.0, "dynamic"])
def test_a_scaled_optimizer_keeps_its_scale_when_it_is_saved(loss_scale):
    optimizer = loss_scaling.scale_loss(sgd.SGD(0.5), loss_scale)

    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))

    assert type(copy) is type(optimizer)
    assert copy.dynamic == (loss_scale == "dynamic")
    assert copy.initial_scale == optimizer.initial_scale


@pytest.mark.parametrize("loss_scale", [0.0, -1.0, float("nan"), float("inf"), "big"])
def test_a_scale_that_is_none_is_an_error(loss_scale):
    with pytest.raises(ValueError, match="loss_scale: got"):
        loss_scaling.scale_loss(sgd.SGD(0.5), loss_scale)


def test_gradients_of_a_loss_that_was_never_scaled_are_warned_of_once(caplog):
    weight = keras.Variable([1.0])
    optimizer = loss_scaling.FixedLossScaleOptimizer(sgd.SGD(1.0), 8.0)

    for _ in range(2):
        optimizer.apply([tf.constant([8.0])], [weight])

    assert [record.message[:13] for record in caplog.records] == ["The gradients"]
