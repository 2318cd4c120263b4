import inspect

import keras
import pytest
import tensorflow as tf

from quintain.optimization.rules import adam, lamb, lars


def test_arguments_are_taken_by_place_as_the_model_garden_lists_them():
    optimizer = lamb.LAMB(0.1, 0.8, 0.99, 1e-5, 0.01, ["bias"], None, "mine")
    decaying = adam.AdamWeightDecay(0.1, 0.8, 0.99, 1e-5, True, 0.01)

    assert (optimizer.beta_1, optimizer.beta_2, optimizer.name) == (0.8, 0.99, "mine")
    assert (decaying.amsgrad, decaying.weight_decay_rate) == (True, 0.01)
    assert list(inspect.signature(lars.LARS).parameters)[:3] == [
        "learning_rate",
        "momentum",
        "weight_decay_rate",
    ]
    with pytest.raises(TypeError, match="multiple values for argument 'beta_1'"):
        lamb.LAMB(0.1, 0.8, beta_1=0.8)


def test_gradients_that_are_summed_already_are_not_summed_again():
    weight = keras.Variable([1.0])
    optimizer = adam.AdamWeightDecay(0.1, weight_decay_rate=0.5)

    optimizer.apply_gradients(
        [(tf.constant([1.0]), weight)], name="update", experimental_aggregate_gradients=False
    )

    assert float(weight.numpy()[0]) == pytest.approx(1.0 - 0.1 * 0.5 - 0.1, rel=1e-5)
