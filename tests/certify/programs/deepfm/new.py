import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        x = {
            "feat_ids": random.randint(0, 40, (32, 5)),
            "feat_vals": random.rand(32, 5).astype("float32"),
        }
        yield x, random.randint(0, 2, 32).astype("float32")


class Adam(keras.optimizers.Adam):
    """Sums the repeated rows of an embedding's gradient."""

    def apply(self, grads, trainable_variables=None):
        super().apply([tf.convert_to_tensor(grad) for grad in grads], trainable_variables)


class DeepFM(keras.Model):
    def __init__(self):
        super().__init__()
        l2 = keras.regularizers.L2(1e-3 / 2)
        self.fm_bias = self.add_weight(name="fm_bias", shape=(1,), initializer="zeros")
        self.fm_w = self.add_weight(
            name="fm_w", shape=(40,), initializer="glorot_normal", regularizer=l2
        )
        self.fm_v = self.add_weight(
            name="fm_v", shape=(40, 4), initializer="glorot_normal", regularizer=l2
        )
        self.mlp = [layers.Dense(units, activation="relu") for units in (16, 8)]
        self.dropouts = [layers.Dropout(0.5) for _ in self.mlp]
        self.deep_out = layers.Dense(1)

    def call(self, inputs, training=None):
        ids, vals = inputs["feat_ids"], inputs["feat_vals"]
        first = tf.reduce_sum(tf.gather(tf.convert_to_tensor(self.fm_w), ids) * vals, 1)
        rows = tf.gather(tf.convert_to_tensor(self.fm_v), ids) * vals[..., tf.newaxis]
        squares = tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1)
        deep = tf.reshape(rows, [-1, 20])
        for dense, dropout in zip(self.mlp, self.dropouts, strict=True):
            deep = dropout(dense(deep), training=training)
        deep = tf.reshape(self.deep_out(deep), [-1])
        return tf.sigmoid(self.fm_bias + first + 0.5 * tf.reduce_sum(squares, 1) + deep)


def build_model():
    model = DeepFM()
    model.compile(Adam(5e-4, epsilon=1e-8), "binary_crossentropy", metrics=[keras.metrics.AUC()])
    return model
