import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.optimization import gradient_accumulation, loss_scaling
from quintain.optimization.rules import adam, sgd


def accumulate(optimizer, weights, parts, runner):
    """Applies lists of gradients as one update; graphs loop as the trainer does."""
    optimizer.build(weights)

    def step(*flat):
        count = len(weights)
        batches = [flat[start : start + count] for start in range(0, len(flat), count)]
        with optimizer.accumulation_only():
            for batch in batches[:-1]:
                optimizer.apply(list(batch), weights)
        optimizer.apply(list(batches[-1]), weights)

    runner(step)(*[tf.constant(part) for batch in parts for part in batch])
    return [weight.numpy() for weight in weights]


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        lambda: sgd.SGD(0.1, momentum=0.9, global_clipnorm=1.0),
        lambda: adam.Adam(0.1, clipnorm=0.5),
        lambda: adam.AdamWeightDecay(0.1, weight_decay_rate=0.1),
        lambda: keras.optimizers.Adam(0.1),
        lambda: loss_scaling.LossScaleOptimizer(sgd.SGD(0.1), initial_scale=4.0),
    ],
)
def test_an_update_is_that_of_the_mean_gradient(build, make_fresh_weights, fresh_gradients, runner):
    batches = fresh_gradients(3)
    mean = [np.mean(parts, axis=0, dtype="float32") for parts in zip(*batches, strict=True)]
    whole, weights = build(), make_fresh_weights()
    whole.build(weights)
    whole.apply(list(map(tf.constant, mean)), weights)

    optimizer = gradient_accumulation.GradientAccumulation(build(), 3)
    results = accumulate(optimizer, make_fresh_weights(), batches, runner)

    assert int(optimizer.iterations.numpy()) == 1
    for result, weight in zip(results, weights, strict=True):
        np.testing.assert_allclose(result, weight.numpy(), rtol=2e-6)


def test_sums_start_at_zero_in_every_step():
    weight = keras.Variable([0.0])
    optimizer = gradient_accumulation.GradientAccumulation(sgd.SGD(1.0), 2)

    for _ in range(2):
        with optimizer.accumulation_only():
            optimizer.apply([tf.constant([1.0])], [weight])
        optimizer.apply([tf.constant([3.0])], [weight])

    assert weight.numpy().tolist() == [-4.0]


def test_rows_of_sparse_gradients_are_added_up():
    table = keras.Variable(np.zeros((3, 1)))
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 2]), tf.constant([3, 1]))
    optimizer = gradient_accumulation.GradientAccumulation(sgd.SGD(1.0), 2)

    with optimizer.accumulation_only():
        optimizer.apply([rows], [table])
    optimizer.apply([rows], [table])

    assert table.numpy().ravel().tolist() == [0.0, 0.0, -3.0]


def test_an_overflow_in_one_batch_skips_the_update():
    weight = keras.Variable([1.0])
    scaled = loss_scaling.LossScaleOptimizer(sgd.SGD(1.0), initial_scale=8.0)
    optimizer = gradient_accumulation.GradientAccumulation(scaled, 2)

    with optimizer.accumulation_only():
        optimizer.apply([tf.constant([np.inf])], [weight])
    optimizer.apply([tf.constant([1.0])], [weight])
    with optimizer.accumulation_only():
        optimizer.apply([tf.constant([4.0])], [weight])
    optimizer.apply([tf.constant([4.0])], [weight])

    assert weight.numpy().tolist() == [0.0]
    assert int(optimizer.iterations.numpy()) == 1


def test_checkpoints_do_not_hold_the_sums(tmp_path):
    weight = keras.Variable([1.0])
    optimizer = gradient_accumulation.GradientAccumulation(sgd.SGD(1.0), 2)
    optimizer.build([weight])

    path = tf.train.Checkpoint(optimizer=optimizer).write(str(tmp_path / "ckpt"))

    assert not [name for name, _ in tf.train.list_variables(path) if "sum" in name.lower()]


def test_a_config_makes_an_equal_optimizer():
    optimizer = gradient_accumulation.GradientAccumulation(adam.Adam(0.1), 4)

    copy = gradient_accumulation.GradientAccumulation.from_config(optimizer.get_config())

    assert copy.get_config() == optimizer.get_config()


def test_a_count_below_one_is_refused():
    with pytest.raises(errors.ConfigError, match="num_batches: got 0"):
        gradient_accumulation.GradientAccumulation(sgd.SGD(1.0), 0)
