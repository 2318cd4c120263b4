"""Per-example clipping against a loop over the examples in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core.privacy import private_gradients

NUM_TOKENS = 11
LENGTH = 5
CLIPPING_NORM = 24.0


class TinyTransformer(keras.Model):
    """Embedding (used twice), attention, normalisation, dense layers on sequences and vectors."""

    def __init__(self, dropout_rate=0.0):
        super().__init__()
        self.embedding = keras.layers.Embedding(NUM_TOKENS, 6)
        self.attention = keras.layers.MultiHeadAttention(2, 3, dropout=dropout_rate)
        self.norm = keras.layers.LayerNormalization()
        self.wide = keras.layers.Dense(7, activation="relu", kernel_regularizer="l2")
        self.narrow = keras.layers.Dense(6)
        self.head = keras.layers.Dense(3)
        self.dropout = keras.layers.Dropout(dropout_rate)

    def call(self, inputs, training=False):
        states = self.embedding(inputs)
        states = self.norm(states + self.attention(states, states, training=training))
        states = states + self.narrow(self.wide(states))
        pooled = self.dropout(tf.reduce_mean(states, axis=1), training=training)
        tied = tf.matmul(
            tf.reduce_mean(states, axis=1), self.embedding.embeddings, transpose_b=True
        )
        return tf.concat([self.head(pooled), tied], axis=-1)


def compute_loss(labels, outputs, model):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)
    return tf.add_n([tf.reduce_mean(losses), *model.losses])


@pytest.fixture(scope="module")
def transformer():
    keras.utils.set_random_seed(1)
    model = TinyTransformer()
    model(tf.zeros([1, LENGTH], tf.int32))
    return model


@pytest.fixture(scope="module")
def batch():
    generator = np.random.default_rng(2)
    tokens = generator.integers(0, NUM_TOKENS, [10, LENGTH]).astype(np.int32)
    return tf.constant(tokens), tf.constant(generator.integers(0, 3, [10]).astype(np.int32))


def sum_in_numpy(model, features, labels, clipping_norm):
    """Returns the sum of clipped gradients in float64, and each example's loss and norm."""
    variables = [variable.value for variable in model.trainable_variables]
    total, losses, norms = [np.zeros(v.shape) for v in variables], [], []
    for row in range(features.shape[0]):
        with tf.GradientTape() as tape:
            outputs = model(features[row : row + 1], training=True)
            loss = compute_loss(labels[row : row + 1], outputs, model)
        gradients = [
            tf.convert_to_tensor(part).numpy().astype(np.float64)
            for part in tape.gradient(loss, variables)
        ]
        norm = np.sqrt(sum(np.sum(part**2) for part in gradients))
        scale = min(1.0, clipping_norm / norm)
        total = [a + scale * b for a, b in zip(total, gradients, strict=True)]
        losses.append(float(loss))
        norms.append(norm)
    return total, losses, norms


@pytest.mark.long("Further cases of a test of which some run every time", but=["size"])
@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes", [{}, {"microbatch_size": 4}, {"num_microbatches": 2}], ids=["whole", "size", "number"]
)
def test_sum_equals_clipping_and_adding_one_example_after_the_other(transformer, batch, sizes):
    computation = private_gradients.ClippedGradients(
        transformer, compute_loss, clipping_norm=CLIPPING_NORM, **sizes
    )

    result = computation.compute(*batch, tf.ones([10], tf.bool))

    expected, losses, norms = sum_in_numpy(transformer, *batch, CLIPPING_NORM)
    assert min(norms) < CLIPPING_NORM < max(norms)
    np.testing.assert_allclose(result.losses, losses, rtol=1e-5)
    for part, wanted in zip(result.gradients, expected, strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.outputs, transformer(batch[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.long("Further cases of a test of which some run every time")
@pytest.mark.slow
def test_batch_of_a_size_that_the_graph_does_not_know_is_summed_in_microbatches(transformer, batch):
    computation = private_gradients.ClippedGradients(
        transformer, compute_loss, clipping_norm=0.1, microbatch_size=4
    )
    compute = tf.function(
        lambda features, labels: computation.compute(
            features, labels, tf.ones([tf.shape(labels)[0]], tf.bool)
        ),
        input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)],
    )

    result = compute(*batch)

    expected, losses, _ = sum_in_numpy(transformer, *batch, 0.1)
    np.testing.assert_allclose(result.losses, losses, rtol=1e-5)
    for part, wanted in zip(result.gradients, expected, strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-6)


def build_convolutional():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input([8, 8, 1]),
            layers.Conv2D(4, 3, activation="relu"),
            layers.GroupNormalization(2),
            layers.DepthwiseConv2D(3),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )


def build_recurrent():
    return keras.Sequential(
        [
            keras.Input([8, 8]),
            keras.layers.Bidirectional(keras.layers.GRU(4)),
            keras.layers.Dense(3),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "shape"),
    [(build_convolutional, [5, 8, 8, 1]), (build_recurrent, [5, 8, 8])],
    ids=["convolution", "recurrence"],
)
def test_other_kinds_of_layers_are_clipped_the_same(build, shape):
    keras.utils.set_random_seed(4)
    model = build()
    features = tf.constant(np.random.default_rng(1).normal(size=shape), tf.float32)
    labels = tf.constant([0, 1, 2, 0, 1])
    computation = private_gradients.ClippedGradients(model, compute_loss, clipping_norm=0.3)

    result = tf.function(computation.compute)(features, labels, tf.ones([5], tf.bool))

    expected, losses, norms = sum_in_numpy(model, features, labels, 0.3)
    assert max(norms) > 0.3
    np.testing.assert_allclose(result.losses, losses, rtol=1e-5)
    for part, wanted in zip(result.gradients, expected, strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_rows_of_padding_add_nothing_whatever_they_hold(transformer, batch):
    features, labels = batch
    computation = private_gradients.ClippedGradients(
        transformer, compute_loss, clipping_norm=CLIPPING_NORM
    )
    is_real = np.arange(10) < 6

    result = computation.compute(features, labels, tf.constant(is_real))

    expected, _, _ = sum_in_numpy(transformer, features[:6], labels[:6], CLIPPING_NORM)
    for part, wanted in zip(result.gradients, expected, strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_variable_that_the_loss_does_not_depend_on_has_no_gradient():
    inputs = keras.Input([3])
    used, unused = keras.layers.Dense(2), keras.layers.Dense(2)
    model = keras.Model(inputs, [used(inputs), unused(inputs)])
    computation = private_gradients.ClippedGradients(
        model, lambda labels, outputs, _: tf.reduce_sum(outputs[0]), clipping_norm=1.0
    )

    result = computation.compute(tf.ones([4, 3]), tf.zeros([4]), tf.ones([4], tf.bool))

    assert [part is None for part in result.gradients] == [False, False, True, True]


def test_layer_that_keeps_a_record_of_its_inputs_is_refused():
    class Recorder(keras.layers.Layer):
        def build(self, shape):
            self.seen = self.add_weight(shape=(), trainable=False, name="seen")

        def call(self, inputs):
            self.seen.assign(tf.reduce_max(inputs))
            return inputs

    model = keras.Sequential([keras.Input([3]), Recorder(), keras.layers.Dense(1)])
    computation = private_gradients.ClippedGradients(
        model, lambda labels, outputs, _: tf.reduce_sum(outputs), clipping_norm=1.0
    )

    with pytest.raises(errors.ConfigError, match=r"the model changes .*seen"):
        computation.compute(tf.ones([4, 3]), tf.zeros([4]), tf.ones([4], tf.bool))
