import keras
import numpy as np
import tensorflow as tf


def batches():
    random = np.random.RandomState(0)
    return [(random.randint(0, 60, 32), random.randint(0, 60, (32, 1))) for _ in range(3)]


class SkipGrams(keras.Model):
    """Embeddings; the loss has weights and biases of its own."""

    def __init__(self):
        super().__init__()
        self.embeddings = keras.layers.Embedding(
            60, 8, embeddings_initializer=keras.initializers.RandomUniform(-1.0, 1.0)
        )
        normal = keras.initializers.TruncatedNormal(stddev=8**-0.5)
        self.nce_weights = self.add_weight(shape=(60, 8), initializer=normal, name="nce_weights")
        self.nce_biases = self.add_weight(shape=(60,), initializer="zeros", name="nce_biases")

    def call(self, inputs):
        return self.embeddings(inputs)

    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        losses = tf.nn.nce_loss(
            self.nce_weights.value, self.nce_biases.value, tf.cast(y, "int64"), y_pred, 10, 60
        )
        return tf.reduce_mean(losses)


def build_model():
    model = SkipGrams()
    model.compile(keras.optimizers.SGD(1.0))
    return model
