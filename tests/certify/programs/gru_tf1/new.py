import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    return [(random.randint(0, 30, (24, 8)), random.randint(0, 3, 24)) for _ in range(3)]


class Adagrad(keras.optimizers.Adagrad):
    """Sums the repeated rows of an embedding's gradient."""

    def apply(self, grads, trainable_variables=None):
        super().apply([tf.convert_to_tensor(grad) for grad in grads], trainable_variables)


class GateBias(keras.initializers.Initializer):
    """Ones for both gates, zeros for the candidate, as TensorFlow 1 had it."""

    def __call__(self, shape, dtype=None):
        units = shape[-1] // 3
        return tf.concat([tf.ones([2 * units], dtype), tf.zeros([units], dtype)], 0)


def build_model():
    model = keras.Sequential([
        keras.Input((8,), dtype="int64"),
        layers.Embedding(30, 6, embeddings_initializer=keras.initializers.RandomNormal(0, 1)),
        layers.GRU(
            5,
            reset_after=False,
            return_sequences=True,
            recurrent_initializer="glorot_uniform",
            bias_initializer=GateBias(),
        ),
        layers.GlobalAveragePooling1D(),
        layers.Dense(3, name="intent"),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(Adagrad(0.1, epsilon=0.0), loss)
    return model
