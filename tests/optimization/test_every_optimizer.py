"""What holds for every optimizer that a config can choose."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import optimization
from quintain.optimization import fused_optimizer, optimizer_factory

# Fields that turn on every part of a rule, where the defaults do not.
_FIELDS = {
    "sgd": {"momentum": 0.9, "decay": 0.1},
    "sgd_experimental": {"momentum": 0.9, "nesterov": True},
    "rmsprop": {"momentum": 0.9, "centered": True, "epsilon": 1e-3},
    "adam": {"amsgrad": True},
    "adam_experimental": {"jit_compile": True},
    "adamw": {"weight_decay_rate": 0.1, "exclude_from_weight_decay": ["_1"]},
    "adamw_experimental": {"weight_decay": 0.1, "exclude_from_weight_decay": ["_1"]},
    "lamb": {"weight_decay_rate": 0.1, "exclude_from_weight_decay": ["_1"]},
    "lars": {"weight_decay_rate": 0.1, "classic_momentum": False},
    "adafactor": {"min_dim_size_to_factor": 2, "beta1": 0.9, "weight_decay": 0.1},
    "adafactor_keras": {"weight_decay": 0.1},
    "lion": {"weight_decay": 0.1},
    "ftrl": {"l1_regularization_strength": 0.01},
}
_TYPES = optimization.OptimizerConfig().choices()
_EVERY_TYPE = pytest.mark.parametrize("name", _TYPES)


def _build(name, fields=None, rate=0.1):
    config = optimization.OptimizationConfig(
        {
            "optimizer": {"type": name, name: _FIELDS.get(name, {}) | (fields or {})},
            "learning_rate": {
                "type": "wsd",
                "wsd": {"initial_learning_rate": rate, "stable_steps": 3, "decay_steps": 6},
            },
        }
    )
    factory = optimizer_factory.OptimizerFactory(config)
    return factory.build_optimizer(factory.build_learning_rate())


@_EVERY_TYPE
def test_it_is_a_fused_optimizer_of_its_configs_name(name):
    optimizer = _build(name, {"name": "chosen"})

    assert isinstance(optimizer, fused_optimizer.FusedOptimizer)
    assert optimizer.name == "chosen"


# As in the reference, the config of Keras' AdamW has other defaults than the class.
_CONFIG_DEFAULTS = {"adamw_experimental": {"weight_decay": 0.0, "global_clipnorm": 1.0}}


@_EVERY_TYPE
def test_its_defaults_are_those_of_its_config(name):
    config = getattr(optimization.OptimizerConfig(), name)

    described = optimizer_factory.OPTIMIZERS[name]().get_config()
    described |= _CONFIG_DEFAULTS.get(name, {})

    for key, value in config.as_dict().items():
        if key not in {"name", "decay"}:
            assert described[key] == value or (value is None and not described[key]), key


@_EVERY_TYPE
def test_it_comes_back_from_its_own_description(name):
    optimizer = _build(name)

    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))

    assert type(restored) is type(optimizer)
    assert restored.get_config() == optimizer.get_config()


def test_a_constant_learning_rate_is_described_as_it_was_given():
    assert optimization.Adam(0.1).get_config()["learning_rate"] == 0.1
    assert optimization.Adam(3e-5).get_config()["learning_rate"] == 3e-5


@pytest.mark.long("What all rules share is one class", but=["adamw", "adafactor", "sgd"])
@pytest.mark.slow
@_EVERY_TYPE
def test_a_restored_checkpoint_goes_on_exactly(
    name, tmp_path, train_weights, fresh_gradients, make_fresh_weights
):
    gradients = fresh_gradients(6)
    weights, optimizer = make_fresh_weights(), _build(name)
    train_weights(optimizer, weights, gradients[:3])
    path = tf.train.Checkpoint(weights=weights, optimizer=optimizer).save(str(tmp_path / "ckpt"))
    expected = train_weights(optimizer, weights, gradients[3:])

    restored, again = make_fresh_weights(), _build(name)
    again.build(restored)
    checkpoint = tf.train.Checkpoint(weights=restored, optimizer=again)
    checkpoint.restore(path).assert_consumed()
    actual = train_weights(again, restored, gradients[3:])

    assert int(again.iterations.numpy()) == 6
    for left, right, start in zip(actual, expected, make_fresh_weights(), strict=True):
        np.testing.assert_array_equal(left, right)
        assert np.isfinite(left).all()
        assert not np.array_equal(left, start)


_PEERS = {
    "rmsprop": keras.optimizers.RMSprop,
    "adagrad": keras.optimizers.Adagrad,
    "adadelta": keras.optimizers.Adadelta,
    "adamax": keras.optimizers.Adamax,
    "lamb": keras.optimizers.Lamb,
    "lion": keras.optimizers.Lion,
    "ftrl": keras.optimizers.Ftrl,
    "muon": keras.optimizers.Muon,
    "adamw_experimental": keras.optimizers.AdamW,
}


@pytest.mark.parametrize("name", _PEERS)
def test_training_goes_on_from_a_checkpoint_of_keras(
    name, tmp_path, train_weights, fresh_gradients, make_fresh_weights
):
    gradients = fresh_gradients(4)
    weights, theirs = make_fresh_weights(), _PEERS[name](0.01)
    train_weights(theirs, weights, gradients[:2])
    path = tf.train.Checkpoint(weights=weights, optimizer=theirs).save(str(tmp_path / "ckpt"))
    expected = train_weights(theirs, weights, gradients[2:])

    restored, ours = make_fresh_weights(), optimizer_factory.OPTIMIZERS[name](0.01)
    ours.build(restored)
    checkpoint = tf.train.Checkpoint(weights=restored, optimizer=ours)
    checkpoint.restore(path).assert_existing_objects_matched()
    actual = train_weights(ours, restored, gradients[2:])

    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-6)


@_EVERY_TYPE
def test_weights_of_two_types_and_variables_of_tensorflow_train_alike(name):
    start = np.array([[1.0, 2.0], [3.0, 5.0]])
    weights = [
        keras.Variable(start, dtype="float32", name="single"),
        keras.Variable(start, dtype="float64", name="double"),
        tf.Variable(start.astype("float32"), name="plain"),
    ]
    optimizer = _build(name)

    for scale in (1.0, -0.5):
        optimizer.apply_gradients(
            [(tf.constant(scale * start.T, weight.dtype), weight) for weight in weights]
        )

    for weight in weights[1:]:
        np.testing.assert_allclose(weights[0], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.long("What all rules share is one class", but=["adamw", "adafactor", "sgd"])
@pytest.mark.slow
@_EVERY_TYPE
def test_it_lowers_the_loss_of_a_compiled_keras_model(name):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer=_build(name, rate=0.02), loss="mse")
    features = np.random.default_rng(1).normal(size=(64, 3)).astype("float32")
    labels = features.sum(axis=1, keepdims=True)

    history = model.fit(features, labels, batch_size=16, epochs=2, verbose=0)

    assert history.history["loss"][-1] < history.history["loss"][0]


@pytest.mark.long("What all rules share is one class", but=["adamw_experimental"])
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgd_experimental", "adam_experimental", "adamw_experimental"])
def test_a_compiled_update_gives_the_same_weights(name, trained):
    compiled, plain = _build(name, {"jit_compile": True}), _build(name)

    for left, right in zip(trained(compiled, 5), trained(plain, 5), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=1e-6)
    assert compiled.get_config()["jit_compile"]


_EVERY_TIME = ("adamw", "adafactor", "sgd", "an optimizer of keras")


@pytest.fixture
def replicas(name, run_program):
    """Weights of two replicas, and of one that got the summed gradients."""
    is_long = name not in _EVERY_TIME
    names = [one for one in _TYPES if (one not in _EVERY_TIME) == is_long]
    fields = json.dumps({one: _FIELDS.get(one, {}) for one in names})
    return run_program("apply_summed_gradients.py", fields)[name]


@pytest.mark.long("What all rules share is one class", but=_EVERY_TIME)
@pytest.mark.slow
@pytest.mark.parametrize("name", [*_TYPES, "an optimizer of keras"])
def test_replicas_take_the_step_of_the_summed_gradients_once(replicas):
    first, second, alone = replicas

    assert first == second
    for left, right in zip(first, alone, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=1e-6)
    assert first[1] != [[1.0, 2.0], [3.0, 4.0]]
