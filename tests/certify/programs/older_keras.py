"""Models for Keras 2, as people wrote them."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


def compile_model(model, optimizer=None, loss=None):
    sparse = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer or keras.optimizers.Adam(0.01), loss or sparse)
    return model


def dense(**norm):
    return compile_model(
        keras.Sequential([
            layers.Dense(8, input_shape=(6,)),
            layers.BatchNormalization(**norm),
            layers.ReLU(),
            layers.Dense(3),
        ])
    )  # fmt: skip


def small(kernel=None, optimizer=None, loss=None, rate=0.2, **last):
    inputs = keras.Input((6,))
    hidden = layers.Dense(8, activation="relu", kernel_initializer=kernel or "glorot_uniform")(
        inputs
    )
    hidden = layers.Dropout(rate)(hidden)
    return compile_model(keras.Model(inputs, layers.Dense(3, **last)(hidden)), optimizer, loss)


def norm_epsilon():
    return dense(epsilon=1e-5)


def momentum():
    return dense(momentum=0.9)


def adam_epsilon():
    return small(optimizer=keras.optimizers.Adam(0.01, epsilon=1e-3))


def initialiser():
    return small(kernel=keras.initializers.TruncatedNormal(stddev=0.02))


def reduction():
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=keras.losses.Reduction.SUM
    )
    return small(loss=loss)


def schedule():
    rates = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=5, decay_rate=0.5)
    return small(optimizer=keras.optimizers.SGD(rates))


def dropout():
    return small()


def l2():
    return small(
        optimizer=keras.optimizers.SGD(0.1), kernel_regularizer=keras.regularizers.l2(0.01)
    )


def smoothing():
    return small(loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1))


def padding():
    return compile_model(
        keras.Sequential([
            layers.ZeroPadding2D(1, input_shape=(8, 8, 2)),
            layers.Conv2D(4, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ])
    )  # fmt: skip


def mask():
    return compile_model(
        keras.Sequential([
            layers.Embedding(20, 6, mask_zero=True, input_length=7),
            layers.LSTM(5),
            layers.Dense(3),
        ])
    )  # fmt: skip


class Untold(keras.Model):
    def __init__(self, middle):
        super().__init__()
        self.hidden, self.middle, self.last = layers.Dense(8), middle, layers.Dense(3)

    def call(self, x):
        return self.last(self.middle(self.hidden(x)))


def untold_norm():
    return compile_model(Untold(layers.BatchNormalization()))


def untold_dropout():
    return compile_model(Untold(layers.Dropout(0.5)))


def image_norm():
    return compile_model(
        keras.Sequential([
            layers.Conv2D(4, 3, activation="relu", input_shape=(8, 8, 2)),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ])
    )  # fmt: skip


class Lstm(layers.Layer):
    """An LSTM of one's own: gates in the order input, forget, output, candidate."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, shape):
        self.kernel = self.add_weight("kernel", (shape[-1], 4 * self.units))
        self.recurrent_kernel = self.add_weight("recurrent_kernel", (self.units, 4 * self.units))
        self.bias = self.add_weight("bias", (4 * self.units,))

    def call(self, x):
        state = cell = tf.zeros((tf.shape(x)[0], self.units))
        for step in range(x.shape[1]):
            gates = (
                tf.matmul(x[:, step], self.kernel)
                + tf.matmul(state, self.recurrent_kernel)
                + self.bias
            )
            i, f, o, c = tf.split(gates, 4, axis=-1)
            cell = tf.sigmoid(f) * cell + tf.sigmoid(i) * tf.tanh(c)
            state = tf.sigmoid(o) * tf.tanh(cell)
        return state


def gates():
    return compile_model(keras.Sequential([
        layers.Embedding(20, 6, input_length=7), Lstm(5, name="lstm"), layers.Dense(3),
    ]))  # fmt: skip


def gru():
    return compile_model(keras.Sequential([
        layers.Embedding(20, 6, input_length=7), layers.GRU(5, reset_after=False), layers.Dense(3),
    ]))  # fmt: skip


def plain():
    return compile_model(keras.Sequential([layers.Dense(3, input_shape=(6,))]))
