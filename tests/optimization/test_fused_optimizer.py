import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.optimization.rules import adam, sgd
from quintain.optimization.schedules import lr_schedule

_OPTIMIZERS = {
    "sgd": lambda: sgd.SGD(0.1, momentum=0.9, clipnorm=1.0),
    "adam": lambda: adam.Adam(0.1, amsgrad=True, clipvalue=1.0),
    "adamw": lambda: adam.AdamWeightDecay(
        lr_schedule.DirectPowerDecay(0.1, -0.5), weight_decay_rate=0.1
    ),
}
_EVERY_OPTIMIZER = pytest.mark.parametrize("build", _OPTIMIZERS.values(), ids=_OPTIMIZERS)


@pytest.fixture(scope="module")
def replicas(run_program):
    """Results of one step on two replicas: both copies of the weight, and the count of updates."""
    return run_program("apply_gradients_on_replicas.py")


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["global", "norm", "eager"])
def test_the_norm_is_limited_after_summing_over_replicas(replicas, limit):
    first, second, count = replicas[limit]

    np.testing.assert_allclose(first, [-0.6, -0.8], rtol=1e-6)
    assert first == second
    assert count == 1


@pytest.mark.slow
def test_keras_limits_the_norm_before_summing_which_is_why_we_do_not_use_it(replicas):
    assert replicas["keras"][0] == [-1.0, -1.0]


@pytest.mark.slow
def test_values_are_limited_after_summing_over_replicas(replicas):
    assert replicas["value"] == [[-3.0, -3.5], [-3.0, -3.5], 1]


@pytest.mark.slow
def test_the_clip_norm_of_bert_limits_the_sum_over_replicas(replicas):
    first, second, _ = replicas["adamw"]

    np.testing.assert_allclose(first, [-0.6 / 1.6, -0.8 / 1.8], rtol=1e-5)
    assert first == second


@pytest.mark.slow
def test_sparse_gradients_are_summed_over_replicas(replicas):
    assert replicas["sparse"][:2] == [[-1.0, -2.0, -1.0]] * 2
    assert replicas["sparse clipped"][:2] == [[-1.0, -1.5, -1.0]] * 2


@pytest.mark.slow
def test_an_aggregator_replaces_the_sum(replicas):
    assert replicas["aggregator"][:2] == [[-6.0, 0.0], [0.0, -8.0]]


@pytest.mark.slow
def test_a_transformer_sees_the_sum(replicas):
    assert replicas["transformer"][:2] == [[-6.0, -8.0]] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["outside", "outside in a graph"])
def test_outside_of_a_replica_gradients_count_as_summed(replicas, name):
    assert replicas[name] == [[-3.0, -4.0], [-3.0, -4.0], 1]


@pytest.mark.slow
def test_a_scaled_loss_is_unscaled_after_summing_over_replicas(replicas):
    assert replicas["scaled"] == [[-1.5, -2.0], [-1.5, -2.0], 1]


@pytest.mark.slow
def test_an_overflow_on_any_replica_skips_the_update(replicas):
    assert replicas["overflow"] == [[0.0, 0.0], [0.0, 0.0], 0]


def test_one_device_gives_the_same_update_as_no_strategy(trained):
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        inside = trained(adam.AdamWeightDecay(0.1, weight_decay_rate=0.1), 3)

    outside = trained(adam.AdamWeightDecay(0.1, weight_decay_rate=0.1), 3)

    for left, right in zip(inside, outside, strict=True):
        np.testing.assert_array_equal(left, right)


def test_transformers_run_in_their_order_before_clipping():
    weight = keras.Variable([0.0])
    optimizer = sgd.SGD(
        1.0,
        clipvalue=5.0,
        gradient_transformers=[
            lambda pairs: [(gradient + 1.0, variable) for gradient, variable in pairs],
            lambda pairs: [(gradient * 3.0, variable) for gradient, variable in pairs],
        ],
    )

    optimizer.apply_gradients([(tf.constant([1.0]), weight)])

    assert weight.numpy().tolist() == [-5.0]


def test_a_transformer_that_loses_a_variable_is_an_error():
    optimizer = sgd.SGD(1.0, gradient_transformers=[lambda pairs: pairs[1:]])

    with pytest.raises(ValueError, match="gradient_transformers: got back 0 pairs"):
        optimizer.apply_gradients([(tf.constant([1.0]), keras.Variable([0.0]))])


def test_a_variable_without_a_gradient_is_kept_and_warned_of_once(caplog):
    kept, moved = keras.Variable([1.0], name="kept"), keras.Variable([1.0], name="moved")
    optimizer = sgd.SGD(1.0)
    optimizer.build([kept, moved])

    with caplog.at_level(logging.WARNING):
        optimizer.apply_gradients([(None, kept), (tf.constant([1.0]), moved)])

        optimizer.apply_gradients([(None, kept), (tf.constant([1.0]), moved)])

    assert "No gradient for ['kept']" in caplog.text
    assert len(caplog.records) == 1
    assert (kept.numpy().tolist(), moved.numpy().tolist()) == ([1.0], [-1.0])


def test_no_gradient_at_all_is_an_error():
    with pytest.raises(ValueError, match=r"got None for all of \['lonely'\]"):
        sgd.SGD(1.0).apply_gradients([(None, keras.Variable([1.0], name="lonely"))])


def test_a_variable_the_optimizer_was_not_built_for_is_an_error():
    optimizer = sgd.SGD(1.0)
    optimizer.build([keras.Variable([1.0])])

    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.apply_gradients([(tf.constant([1.0]), keras.Variable([1.0]))])


def test_a_missing_gradient_in_a_list_of_gradients_is_an_error():
    optimizer = sgd.SGD(1.0)
    optimizer.build([keras.Variable([1.0]), keras.Variable([1.0])])

    with pytest.raises(ValueError, match="must hold"):
        optimizer.apply([tf.constant([1.0])])


def test_half_precision_weights_are_an_error_that_names_the_remedy():
    weight = keras.Variable([1.0], dtype="bfloat16", name="half")

    with pytest.raises(ValueError, match=r"half: got a bfloat16 weight.*mixed_bfloat16"):
        adam.Adam(0.1).build([weight])


@pytest.mark.parametrize("rate", ["0.1", None, lambda: 0.1])
def test_a_learning_rate_that_is_neither_number_nor_schedule_is_an_error(rate):
    with pytest.raises(TypeError, match="learning_rate: got"):
        sgd.SGD(rate)


def test_both_norms_together_are_an_error():
    with pytest.raises(errors.ConfigError, match="At most one norm"):
        sgd.SGD(0.1, clipnorm=1.0, global_clipnorm=1.0)


def test_a_constant_learning_rate_can_be_set_between_steps(runner):
    weight = keras.Variable([0.0])
    optimizer = sgd.SGD(1)
    optimizer.build([weight])
    step = runner(lambda: optimizer.apply([tf.constant([1.0])], [weight]))

    step()
    optimizer.learning_rate = 0.25
    step()

    assert weight.numpy().tolist() == [-1.25]
    assert optimizer.learning_rate_schedule is None


def test_the_schedule_stays_at_hand_and_follows_the_count_of_updates(runner):
    schedule = lr_schedule.PiecewiseConstantDecayWithOffset([0, 1], [1.0, 0.5, 0.25])
    weight = keras.Variable([0.0])
    optimizer = sgd.SGD(schedule)
    optimizer.build([weight])
    step = runner(lambda: optimizer.apply([tf.constant([1.0])], [weight]))

    step()
    step()
    step()

    assert weight.numpy().tolist() == [-1.75]
    assert optimizer.learning_rate_schedule is schedule
    assert int(optimizer.iterations.numpy()) == 3


def test_a_constraint_holds_after_every_update(runner):
    dense = keras.layers.Dense(1, kernel_constraint="non_neg", kernel_initializer="ones")
    dense.build((None, 2))
    optimizer = sgd.SGD(1.0)
    optimizer.build([dense.kernel])
    step = runner(lambda: optimizer.apply([tf.constant([[0.25], [5.0]])], [dense.kernel]))

    step()

    assert dense.kernel.numpy().tolist() == [[0.75], [0.0]]


def test_a_fixed_loss_scale_divides_gradients():
    weight = keras.Variable([0.0])
    optimizer = sgd.SGD(1.0)
    optimizer.loss_scale_factor = 8.0

    optimizer.apply_gradients([(tf.constant([4.0]), weight)])

    assert float(optimizer.scale_loss(1.0)) == 8.0
    assert weight.numpy().tolist() == [-0.5]


@_EVERY_OPTIMIZER
def test_a_restored_checkpoint_goes_on_exactly(
    build, tmp_path, train_weights, fresh_gradients, make_fresh_weights
):
    gradients = fresh_gradients(6)
    weights, optimizer = make_fresh_weights(), build()
    train_weights(optimizer, weights, gradients[:3])
    path = tf.train.Checkpoint(weights=weights, optimizer=optimizer).save(str(tmp_path / "ckpt"))
    expected = train_weights(optimizer, weights, gradients[3:])

    restored, again = make_fresh_weights(), build()
    again.build(restored)
    checkpoint = tf.train.Checkpoint(weights=restored, optimizer=again)
    checkpoint.restore(path).assert_consumed()
    actual = train_weights(again, restored, gradients[3:])

    assert int(again.iterations.numpy()) == 6
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(left, right)


def _save_and_list_names(optimizer, path):
    weights = [keras.Variable([1.0]), keras.Variable([1.0])]
    optimizer.build(weights)
    saved = tf.train.Checkpoint(weights=weights, optimizer=optimizer).save(str(path))
    return {name for name, _ in tf.train.list_variables(saved) if name.startswith("optimizer")}


def test_the_names_in_a_checkpoint_stay_the_same(tmp_path):
    names = _save_and_list_names(adam.Adam(0.1), tmp_path / "ckpt")

    parts = ("_iterations", "_learning_rate", *(f"_variables/{index}" for index in range(2, 6)))
    assert names == {f"optimizer/{part}/.ATTRIBUTES/VARIABLE_VALUE" for part in parts}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (sgd.SGD(0.1, momentum=0.9), keras.optimizers.SGD(0.1, momentum=0.9)),
        (adam.Adam(0.1), keras.optimizers.Adam(0.1)),
        (adam.Adam(0.1, amsgrad=True), keras.optimizers.Adam(0.1, amsgrad=True)),
    ],
    ids=["sgd", "adam", "amsgrad"],
)
def test_training_goes_on_from_a_checkpoint_of_keras(
    ours, theirs, tmp_path, train_weights, fresh_gradients, make_fresh_weights
):
    gradients = fresh_gradients(6)
    weights = make_fresh_weights()
    train_weights(theirs, weights, gradients[:3])
    path = tf.train.Checkpoint(weights=weights, optimizer=theirs).save(str(tmp_path / "ckpt"))
    expected = train_weights(theirs, weights, gradients[3:])

    restored = make_fresh_weights()
    ours.build(restored)
    checkpoint = tf.train.Checkpoint(weights=restored, optimizer=ours)
    checkpoint.restore(path).assert_consumed()
    actual = train_weights(ours, restored, gradients[3:])

    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


@_EVERY_OPTIMIZER
def test_every_optimizer_comes_back_from_its_own_description(build):
    optimizer = build()

    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))

    assert type(restored) is type(optimizer)
    assert restored.get_config() == optimizer.get_config()


@pytest.mark.long("test_every_optimizer.py shows it")
@pytest.mark.slow
@_EVERY_OPTIMIZER
def test_every_optimizer_trains_a_compiled_keras_model(build):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer=build(), loss="mse")
    features = np.random.default_rng(1).normal(size=(64, 3)).astype("float32")
    labels = features.sum(axis=1, keepdims=True)

    history = model.fit(features, labels, batch_size=16, epochs=15, verbose=0)

    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
