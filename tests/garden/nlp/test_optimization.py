import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.garden.nlp import optimization
from quintain.optimization.rules import adam, lamb
from quintain.optimization.schedules import lr_schedule


@pytest.mark.parametrize(
    ("optimizer_type", "optimizer_cls"), [("adamw", adam.AdamWeightDecay), ("lamb", lamb.LAMB)]
)
def test_the_optimizer_has_the_values_of_bert(optimizer_type, optimizer_cls):
    optimizer = optimization.create_optimizer(1e-3, 100, 10, optimizer_type=optimizer_type)

    config = optimizer.get_config()
    assert type(optimizer) is optimizer_cls
    assert (config["weight_decay_rate"], config["epsilon"]) == (0.01, 1e-6)
    assert (config["beta_1"], config["beta_2"]) == (0.9, 0.999)
    assert config["exclude_from_weight_decay"] == ["LayerNorm", "layer_norm", "bias"]


def test_the_rate_rises_to_the_first_one_and_then_falls_as_if_it_had_not_risen():
    optimizer = optimization.create_optimizer(0.5, 100, 10, end_lr=0.1, poly_power=2.0, beta_1=0.8)

    rates = [float(optimizer.learning_rate_schedule(step)) for step in (0, 5, 9, 10, 50, 100, 999)]

    expected = [0.0, 0.25, 0.45, 0.1 + 0.4 * 0.9**2, 0.1 + 0.4 * 0.5**2, 0.1, 0.1]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
    assert optimizer.beta_1 == 0.8


def test_without_warmup_steps_there_is_no_warmup():
    schedule = optimization.create_optimizer(0.5, 100, 0).learning_rate_schedule

    assert type(schedule) is lr_schedule.PolynomialDecayWithOffset
    assert [float(schedule(step)) for step in (0, 50, 100)] == [0.5, 0.25, 0.0]


def test_biases_and_layer_norms_do_not_decay():
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.LayerNormalization()])
    model.build((None, 2))
    optimizer = optimization.create_optimizer(0.5, 10, 0)
    before = [weight.numpy() for weight in model.trainable_variables]

    optimizer.apply_gradients(
        [(tf.zeros_like(weight.value), weight) for weight in model.trainable_variables]
    )

    ratios = [1 - 0.5 * 0.01, 1.0, 1.0, 1.0]
    for weight, old, ratio in zip(model.trainable_variables, before, ratios, strict=True):
        np.testing.assert_allclose(weight, old * ratio, rtol=1e-6)


def test_the_warmup_comes_back_from_its_own_description():
    optimizer = optimization.create_optimizer(0.5, 100, 10)

    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))

    assert restored.get_config() == optimizer.get_config()
    assert float(restored.learning_rate_schedule(5)) == 0.25


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: optimization.create_optimizer(0.1, 10, 0, optimizer_type="adam"), "got 'adam'"),
        (lambda: optimization.create_optimizer(0.1, 10, -1), "warmup_steps: got -1"),
        (lambda: optimization.WarmUp(0.1, 0.1, 5, power=0.0), r"power: got 0\.0"),
    ],
)
def test_what_makes_no_sense_is_an_error(build, message):
    with pytest.raises(ValueError, match=message):
        build()
