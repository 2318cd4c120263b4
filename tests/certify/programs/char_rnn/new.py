import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        text = random.randint(0, 20, (16, 9))
        yield text[:, :-1], text[:, 1:]


class Adam(keras.optimizers.Adam):
    """Sums the repeated rows of an embedding's gradient."""

    def apply(self, grads, trainable_variables=None):
        super().apply([tf.convert_to_tensor(grad) for grad in grads], trainable_variables)


def build_model(vocab_size=20, rnn_size=8, num_layers=2):
    model = keras.Sequential([
        keras.Input((None,), dtype="int64"),
        layers.Embedding(vocab_size, rnn_size, embeddings_initializer="glorot_uniform"),
    ])  # fmt: skip
    for _ in range(num_layers):
        model.add(
            layers.LSTM(
                rnn_size,
                return_sequences=True,
                recurrent_initializer="glorot_uniform",
            )
        )
        model.add(layers.Dropout(0.1))
    model.add(layers.Dense(vocab_size, bias_initializer="glorot_uniform"))
    model.compile(
        Adam(0.002, epsilon=1e-8, global_clipnorm=5.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model
