import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    labels = np.eye(2, dtype="float32")
    return [(random.randint(0, 50, (32, 12)), labels[random.randint(0, 2, 32)]) for _ in range(3)]


class Adam(keras.optimizers.Adam):
    """Sums the repeated rows of an embedding's gradient."""

    def apply(self, grads, trainable_variables=None):
        super().apply([tf.convert_to_tensor(grad) for grad in grads], trainable_variables)


def build_model():
    uniform = keras.initializers.RandomUniform(-1.0, 1.0)
    normal = keras.initializers.TruncatedNormal(stddev=0.1)
    constant = keras.initializers.Constant(0.1)
    tokens = keras.Input((12,), dtype="int64")
    x = layers.Embedding(50, 8, embeddings_initializer=uniform)(tokens)
    pooled = []
    for size in (3, 4, 5):
        conv = layers.Conv1D(
            4, size, activation="relu", kernel_initializer=normal, bias_initializer=constant
        )
        pooled.append(layers.GlobalMaxPooling1D()(conv(x)))
    x = layers.Dropout(0.5)(layers.Concatenate()(pooled))
    l2 = keras.regularizers.L2(0.01 / 2)
    output = layers.Dense(
        2, kernel_regularizer=l2, bias_regularizer=l2, bias_initializer=constant, name="output"
    )
    model = keras.Model(tokens, output(x))
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    model.compile(Adam(1e-3, epsilon=1e-8), loss, metrics=["accuracy"])
    return model
