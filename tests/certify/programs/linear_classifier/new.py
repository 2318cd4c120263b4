import keras
import numpy as np
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        x = {name: random.normal(size=(30, 2)).astype("float32") for name in ("petal", "sepal")}
        yield x, random.randint(0, 3, (30, 1))


def build_model():
    inputs = {name: keras.Input((2,), name=name) for name in ("petal", "sepal")}
    petal = layers.Dense(3, use_bias=False, kernel_initializer="zeros")(inputs["petal"])
    sepal = layers.Dense(3, kernel_initializer="zeros")(inputs["sepal"])
    model = keras.Model(inputs, layers.Add()([petal, sepal]))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    model.compile(keras.optimizers.Ftrl(0.2), loss, metrics=["accuracy"])
    return model
