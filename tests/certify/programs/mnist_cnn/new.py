import keras
import numpy as np
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        yield random.rand(32, 196).astype("float32"), random.randint(0, 10, 32)


def build_model():
    model = keras.Sequential([
        keras.Input((196,)),
        layers.Reshape((14, 14, 1)),
        layers.Conv2D(8, 5, padding="same", activation="relu", name="conv1"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 5, padding="same", activation="relu", name="conv2"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(64, activation="relu", name="fc1"),
        layers.Dropout(0.4),
        layers.Dense(10, name="logits"),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3, epsilon=1e-8), loss, metrics=["accuracy"])
    return model
