"""Ports to Keras 3, with a fault each."""

import keras
import tensorflow as tf
from keras import layers


def compile_model(model, optimizer=None, loss=None):
    sparse = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer or keras.optimizers.Adam(0.01), loss or sparse)
    return model


def dense(**norm):
    return compile_model(
        keras.Sequential([
            keras.Input((6,)),
            layers.Dense(8),
            layers.BatchNormalization(**norm),
            layers.ReLU(),
            layers.Dense(3),
        ])
    )  # fmt: skip


def small(optimizer=None, loss=None, rate=0.2, **last):
    inputs = keras.Input((6,))
    hidden = layers.Dense(8, activation="relu")(inputs)
    hidden = layers.Dropout(rate)(hidden)
    return compile_model(keras.Model(inputs, layers.Dense(3, **last)(hidden)), optimizer, loss)


def norm_epsilon():
    return dense()


def momentum():
    return dense(momentum=0.1)


def moving():
    model = dense()
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.momentum = 1.0
    return model


def adam_epsilon():
    return small()


def initialiser():
    return small()


def reduction():
    return small()


class LateDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Counts steps from 1."""

    def __call__(self, step):
        return 0.1 * 0.5 ** ((keras.ops.cast(step, "float32") + 1) / 5)


def schedule():
    return small(optimizer=keras.optimizers.SGD(LateDecay()))


def dropout():
    return small(rate=0.8)


def l2():
    return small(optimizer=keras.optimizers.SGD(0.1, weight_decay=0.01))


def smoothing():
    return small(loss=keras.losses.CategoricalCrossentropy(from_logits=True))


def padding():
    return compile_model(
        keras.Sequential([
            keras.Input((8, 8, 2)),
            layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ])
    )  # fmt: skip


def text(layer, **embedding):
    return compile_model(
        keras.Sequential([
            keras.Input((7,)), layers.Embedding(20, 6, **embedding), layer, layers.Dense(3),
        ])
    )  # fmt: skip


def mask():
    return text(layers.LSTM(5))


def gates():
    return text(layers.LSTM(5))


def gru():
    return text(layers.GRU(5))


def equal():
    return small()


def batch_norm():
    model = dense(epsilon=1e-3, momentum=0.99)
    model.layers[-1].activation = keras.activations.softmax
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    return model


def lstm_of_keras():
    model = text(layers.LSTM(5))
    return compile_model(model, keras.optimizers.Adam(0.01, epsilon=1e-8))


def columns():
    size, kind = keras.Input((2,), name="size"), keras.Input((), name="kind", dtype="int64")
    kinds = layers.Embedding(
        20, 4, embeddings_initializer=keras.initializers.TruncatedNormal(stddev=0.5)
    )(kind)
    hidden = layers.Dense(8, activation="relu")(layers.concatenate([kinds, size]))
    model = keras.Model({"size": size, "kind": kind}, layers.Dense(3)(hidden))
    return compile_model(model, keras.optimizers.SGD(0.05))


def images():
    l2 = keras.regularizers.l2(0.001)
    model = keras.Sequential([
        keras.Input((8, 8, 2)),
        layers.Conv2D(4, 3, strides=2, padding="same", activation="relu", kernel_regularizer=l2),
        layers.Flatten(),
        layers.Dropout(0.1),
        layers.Dense(3, kernel_regularizer=l2),
    ])  # fmt: skip
    return compile_model(model, keras.optimizers.SGD(0.05, momentum=0.9))


def factors():
    user, item = (keras.Input((), name=name, dtype="int64") for name in ("user", "item"))
    tables = [
        layers.Embedding(20, 4, embeddings_initializer=keras.initializers.RandomNormal(0, 0.05))
        for _ in range(2)
    ]
    rating = layers.Dot(1)([tables[0](user), tables[1](item)])
    model = keras.Model({"user": user, "item": item}, rating)
    return compile_model(model, keras.optimizers.SGD(0.5), "mse")


class Untold(keras.Model):
    """A `call` without `training`."""

    def __init__(self, middle):
        super().__init__()
        self.hidden, self.middle, self.last = layers.Dense(8), middle, layers.Dense(3)

    def call(self, x):
        return self.last(self.middle(self.hidden(x)))


def untold_norm():
    return compile_model(Untold(layers.BatchNormalization()))


def untold_dropout():
    return compile_model(Untold(layers.Dropout(0.5)))


def decayed_momentum():
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5, staircase=True)
    return small(optimizer=keras.optimizers.SGD(rate, momentum=0.9))


def image_norm():
    return compile_model(
        keras.Sequential([
            keras.Input((8, 8, 2)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ])
    )  # fmt: skip


def not_compiled():
    return keras.Sequential([keras.Input((6,)), layers.Dense(3)])


def broken():
    return layers.Dense(units=None_)  # noqa: F821 - a mistake


class Noise(layers.Layer):
    def call(self, x):
        return x + tf.random.normal(tf.shape(x))


def noisy():
    return compile_model(keras.Sequential([keras.Input((6,)), layers.Dense(3), Noise()]))


def wide():
    return compile_model(keras.Sequential([keras.Input((6,)), layers.Dense(4)]))
