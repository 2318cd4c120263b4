import keras
import numpy as np
import tensorflow as tf
from keras.layers import LSTM, Dense, Dropout, Embedding, Input


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        reviews = random.randint(1, 60, (32, 12))
        reviews[np.arange(12) < random.randint(0, 9, (32, 1))] = 0  # Padded in front.
        yield reviews, random.randint(0, 2, (32, 1)).astype("float32")


class Adam(keras.optimizers.Adam):
    """Sums the repeated rows of an embedding's gradient."""

    def apply(self, grads, trainable_variables=None):
        super().apply([tf.convert_to_tensor(grad) for grad in grads], trainable_variables)


def build_model(max_features=60, maxlen=12):
    model = keras.Sequential()
    model.add(Input((maxlen,)))
    model.add(Embedding(max_features, 8, mask_zero=True))
    model.add(LSTM(6, kernel_regularizer="l2"))
    model.add(Dropout(0.3))
    model.add(Dense(1, activation="sigmoid"))
    model.compile(loss="binary_crossentropy", optimizer=Adam(), metrics=["accuracy"])
    return model
