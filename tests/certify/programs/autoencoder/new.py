import keras
import numpy as np
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        images = (random.rand(32, 12, 12, 1) > 0.5).astype("float32")
        yield images + random.normal(0, 0.3, images.shape).astype("float32"), images


class RMSprop(keras.optimizers.RMSprop):
    """That of TensorFlow 1: the mean square begins at 1, epsilon is under the root."""

    def build(self, variables):
        super().build(variables)
        for velocity in self._velocities:
            velocity.assign(keras.ops.ones_like(velocity))


def build_model():
    model = keras.Sequential([keras.Input((12, 12, 1))])
    for filters in (8, 4):
        model.add(layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu"))
    model.add(layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu"))
    model.add(layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid"))
    model.compile(RMSprop(0.001, rho=0.9, epsilon=1e-10), "binary_crossentropy")
    return model
