import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        x = {"user": random.randint(0, 25, 40), "item": random.randint(0, 30, 40)}
        yield x, random.uniform(1, 5, 40).astype("float32")


class Factors(keras.Model):
    """Biases and factors; the penalty is that of the rows of a batch."""

    def __init__(self):
        super().__init__()
        normal = keras.initializers.TruncatedNormal(stddev=0.02)
        self.bias_user = layers.Embedding(25, 1, embeddings_initializer="zeros", name="bias_user")
        self.bias_item = layers.Embedding(30, 1, embeddings_initializer="zeros", name="bias_item")
        self.w_user = layers.Embedding(25, 4, embeddings_initializer=normal, name="w_user")
        self.w_item = layers.Embedding(30, 4, embeddings_initializer=normal, name="w_item")

    def call(self, inputs):
        p, q = self.w_user(inputs["user"]), self.w_item(inputs["item"])
        self.add_loss(0.02 * (tf.nn.l2_loss(p) + tf.nn.l2_loss(q)))
        bias = self.bias_user(inputs["user"]) + self.bias_item(inputs["item"])
        return tf.reduce_sum(p * q, 1) + tf.squeeze(bias, -1) + 3.5


def half_of_squares(labels, ratings):
    return tf.nn.l2_loss(ratings - labels)


def build_model():
    model = Factors()
    model.compile(keras.optimizers.SGD(0.05), half_of_squares)
    return model
