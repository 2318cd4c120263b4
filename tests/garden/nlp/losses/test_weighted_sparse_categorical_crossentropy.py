import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.garden.nlp.losses import weighted_sparse_categorical_crossentropy as module
from quintain.nlp.modeling import losses

PROBABILITIES = np.array([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]], np.float32)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (None, (np.log(4) - np.log(0.8)) / 2),
        ([[1, 0]], np.log(4)),
        ([[1, 3]], (np.log(4) - 3 * np.log(0.8)) / 4),
        ([[0, 0]], 0.0),
    ],
)
@pytest.mark.parametrize("shape", [(1, 2), (1, 2, 1)])
def test_the_mean_counts_each_label_by_its_weight(weights, expected, shape):
    labels = np.array([1, 1]).reshape(shape)

    for predictions, from_logits in ((PROBABILITIES, False), (np.log(PROBABILITIES), True)):
        loss = losses.weighted_sparse_categorical_crossentropy_loss(
            labels, predictions, weights, from_logits
        )
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize(("labels", "weights"), [([1], None), ([[1, 1]], [1.0])])
def test_ranks_that_do_not_fit_are_an_error(labels, weights):
    with pytest.raises(RuntimeError, match="got shape"):
        module.loss(tf.constant(labels), PROBABILITIES, weights)


def test_it_works_on_the_outputs_of_a_keras_model():
    model = keras.Sequential([keras.layers.Dense(3, "softmax")])
    model.compile("sgd", module.loss)

    history = model.fit(np.ones([4, 2]), np.ones([4, 1], int), verbose=0)

    assert np.isfinite(history.history["loss"][0])
