import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization import ema, loss_scaling
from quintain.optimization.rules import adam, sgd


def expected_averages(weights, decay, start_step, dynamic):
    """Computes the averages after each update from all values of a weight, the first included."""
    average, averages = weights[0], []
    for step, weight in enumerate(weights[1:], start=1):
        if step < start_step:
            kept = 0.0
        else:
            since = step - start_step
            kept = min(decay, (1 + since) / (10 + since)) if dynamic else decay
        average = kept * average + (1 - kept) * weight
        averages.append(average)
    return averages


@pytest.mark.parametrize("start_step", [0, 3])
@pytest.mark.parametrize("dynamic", [True, False])
def test_the_average_follows_its_formula(runner, start_step, dynamic):
    weight = keras.Variable([4.0])
    optimizer = ema.ExponentialMovingAverage(
        sgd.SGD(1.0), average_decay=0.4, start_step=start_step, dynamic_decay=dynamic
    )
    optimizer.build([weight])
    step = runner(lambda gradient: optimizer.apply([gradient], [weight]))
    values, averages = [4.0], []

    for number in range(6):
        step(tf.constant([0.5 * number]))
        values.append(float(weight.numpy()[0]))
        averages.append(float(optimizer.average_weights[0].numpy()[0]))

    expected = expected_averages(values, 0.4, start_step, dynamic)
    np.testing.assert_allclose(averages, expected, rtol=1e-6)


def test_swapping_twice_is_exact(make_fresh_weights, fresh_gradients, train_weights):
    optimizer = ema.ExponentialMovingAverage(adam.Adam(0.3), average_decay=0.9)
    weights = make_fresh_weights()
    trained = train_weights(optimizer, weights, fresh_gradients(5))
    averages = [average.numpy() for average in optimizer.average_weights]

    optimizer.swap_weights()
    swapped = [weight.numpy() for weight in weights]
    optimizer.swap_weights()

    for value, average in zip(swapped, averages, strict=True):
        np.testing.assert_array_equal(value, average)
    for weight, value in zip(weights, trained, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def test_an_error_does_not_leave_averages_in_place():
    weight = keras.Variable([1.0])
    optimizer = ema.ExponentialMovingAverage(sgd.SGD(1.0), average_decay=0.5, dynamic_decay=False)
    optimizer.apply([tf.constant([1.0])], [weight])

    def fail():
        with optimizer.averaged():
            assert weight.numpy().tolist() == [0.5]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert weight.numpy().tolist() == [0.0]
    assert not optimizer.is_swapped


def test_a_skipped_float16_update_does_not_move_the_average():
    weight = keras.Variable([1.0])
    average = ema.ExponentialMovingAverage(sgd.SGD(1.0), average_decay=0.5, dynamic_decay=False)
    optimizer = loss_scaling.LossScaleOptimizer(average, initial_scale=4.0)
    optimizer.build([weight])

    optimizer.apply([tf.constant([np.inf])], [weight])
    after_skip = average.average_weights[0].numpy().tolist()
    optimizer.apply([tf.constant([2.0])], [weight])

    assert after_skip == [1.0]
    assert weight.numpy().tolist() == [0.0]
    assert average.average_weights[0].numpy().tolist() == [0.5]


@pytest.mark.parametrize("inner", [sgd.SGD, keras.optimizers.SGD, keras.optimizers.Adagrad])
def test_optimizers_of_keras_can_be_averaged(inner):
    weight = keras.Variable([1.0])
    optimizer = ema.ExponentialMovingAverage(inner(0.5), average_decay=0.5, dynamic_decay=False)

    optimizer.apply([tf.constant([1.0])], [weight])

    expected = 0.5 * 1.0 + 0.5 * weight.numpy()
    np.testing.assert_allclose(optimizer.average_weights[0].numpy(), expected)


def test_statistics_are_averaged_if_asked():
    model = keras.Sequential([keras.layers.BatchNormalization()])
    model.build((None, 2))
    optimizer = ema.ExponentialMovingAverage(
        sgd.SGD(1.0), trainable_weights_only=False, average_decay=0.5, dynamic_decay=False
    )
    optimizer.shadow_copy(model)
    optimizer.build(model.trainable_variables)
    model.layers[0].moving_mean.assign([4.0, 8.0])

    optimizer.apply([tf.zeros([2]), tf.zeros([2])], model.trainable_variables)

    with optimizer.averaged():
        assert model.layers[0].moving_mean.numpy().tolist() == [2.0, 4.0]


def test_a_checkpoint_holds_the_averages(tmp_path):
    def build():
        weight = keras.Variable([1.0], name="weight")
        optimizer = ema.ExponentialMovingAverage(adam.Adam(0.1), average_decay=0.5)
        optimizer.build([weight])
        return weight, optimizer

    weight, optimizer = build()
    optimizer.apply([tf.constant([1.0])], [weight])
    path = tf.train.Checkpoint(optimizer=optimizer).write(str(tmp_path / "ckpt"))

    _, restored = build()
    tf.train.Checkpoint(optimizer=restored).read(path).assert_consumed()

    average = optimizer.average_weights[0].numpy()
    assert average != 1.0
    np.testing.assert_array_equal(restored.average_weights[0].numpy(), average)
    assert int(restored.iterations.numpy()) == 1


def test_a_config_makes_an_equal_optimizer():
    optimizer = ema.ExponentialMovingAverage(adam.Adam(0.1), average_decay=0.5, start_step=7)

    copy = ema.ExponentialMovingAverage.from_config(optimizer.get_config())

    assert copy.get_config() == optimizer.get_config()
    assert isinstance(copy.inner_optimizer, adam.Adam)


@pytest.mark.parametrize("arguments", [{"average_decay": 1.0}, {"start_step": -1}])
def test_parameters_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        ema.ExponentialMovingAverage(sgd.SGD(1.0), **arguments)


def test_weights_can_be_set_to_their_averages():
    trained, fixed = keras.Variable([1.0]), keras.Variable([5.0], trainable=False)
    optimizer = ema.ExponentialMovingAverage(
        optimizer=sgd.SGD(1.0), average_decay=0.5, dynamic_decay=False
    )
    optimizer.apply_gradients([(tf.constant([1.0]), trained)], name="update")
    optimizer.lr = 0.25

    optimizer.assign_average_vars([trained, fixed])

    assert (float(trained.numpy()[0]), float(fixed.numpy()[0])) == (0.5, 5.0)
    assert float(optimizer.inner_optimizer.learning_rate) == float(optimizer.lr) == 0.25
    with pytest.raises(ValueError, match="has no average"):
        optimizer.assign_average_vars([keras.Variable([1.0], name="other")])
