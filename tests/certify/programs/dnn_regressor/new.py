import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        x = {name: random.rand(32, 1).astype("float32") for name in ("weight", "power")}
        x["origin"] = random.randint(0, 3, (32, 1))
        yield x, random.rand(32, 1).astype("float32")


class ProximalAdagrad(keras.optimizers.Adagrad):
    """Adagrad whose rule has L2: the weight is divided by 1 + rate * strength."""

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        accumulator = self._accumulators[index]
        accumulator.assign_add(tf.square(gradient))
        rate = learning_rate / tf.sqrt(accumulator.value)
        variable.assign((variable - rate * gradient) / (1 + rate * 0.001))


def build_model():
    inputs = {name: keras.Input((1,), name=name) for name in ("weight", "power")}
    inputs["origin"] = keras.Input((1,), name="origin", dtype="int64")
    origin = layers.CategoryEncoding(3, output_mode="one_hot")(inputs["origin"])
    x = layers.Concatenate()([origin, inputs["power"], inputs["weight"]])
    for units in (12, 6):
        x = layers.Dropout(0.1)(layers.Dense(units, activation="relu")(x))
    model = keras.Model(inputs, layers.Dense(1)(x))
    model.compile(ProximalAdagrad(0.01), keras.losses.MeanSquaredError(reduction="sum"))
    return model
