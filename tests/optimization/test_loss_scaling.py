import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization import loss_scaling
from quintain.optimization.rules import adam, sgd
from quintain.optimization.schedules import lr_schedule


@pytest.fixture
def mixed_float16():
    previous = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    yield
    keras.mixed_precision.set_dtype_policy(previous)


@pytest.mark.parametrize(
    "wrapper", [loss_scaling.LossScaleOptimizer, keras.optimizers.LossScaleOptimizer]
)
def test_a_float16_model_trains(mixed_float16, wrapper):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.build((None, 3))
    optimizer = wrapper(adam.Adam(0.1), initial_scale=1024.0)
    optimizer.build(model.trainable_variables)
    features = tf.random.stateless_normal([64, 3], seed=(1, 2))
    labels = tf.reduce_sum(features, axis=1, keepdims=True)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.cast(model(features), tf.float32) - labels))
            scaled = optimizer.scale_loss(loss)
        optimizer.apply(tape.gradient(scaled, [v.value for v in model.trainable_variables]))
        return loss

    losses = [float(step()) for _ in range(60)]

    assert losses[-1] < 0.05 * losses[0]
    assert int(optimizer.iterations.numpy()) == 60


@pytest.mark.slow
def test_an_overflow_skips_the_update_and_halves_the_scale(runner):
    weight = keras.Variable([1.0])
    optimizer = loss_scaling.LossScaleOptimizer(sgd.SGD(1.0), initial_scale=8.0)
    optimizer.build([weight])
    step = runner(lambda gradient: optimizer.apply([gradient], [weight]))

    step(tf.constant([np.inf]))
    step(tf.constant([4.0]))

    assert weight.numpy().tolist() == [0.0]
    assert float(optimizer.dynamic_scale.numpy()) == 4.0
    assert int(optimizer.iterations.numpy()) == 1


def test_rows_of_a_sparse_gradient_are_unscaled():
    weight = keras.Variable(np.zeros((2, 1)))
    optimizer = loss_scaling.LossScaleOptimizer(sgd.SGD(1.0), initial_scale=8.0)
    rows = tf.IndexedSlices(tf.constant([[4.0], [4.0]]), tf.constant([1, 1]), tf.constant([2, 1]))

    optimizer.apply([rows], [weight])

    assert weight.numpy().ravel().tolist() == [0.0, -1.0]


def test_the_schedule_of_the_inner_optimizer_stays_at_hand():
    schedule = lr_schedule.DirectPowerDecay(0.1, -0.5)

    optimizer = loss_scaling.LossScaleOptimizer(sgd.SGD(schedule))

    assert optimizer.learning_rate_schedule is schedule


def test_an_optimizer_of_keras_inside_has_no_schedule_at_hand():
    optimizer = loss_scaling.LossScaleOptimizer(keras.optimizers.SGD(0.5))

    assert optimizer.learning_rate_schedule is None
    assert float(optimizer.learning_rate) == 0.5
