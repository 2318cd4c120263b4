import keras
import numpy as np
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        images = random.normal(size=(32, 8, 8, 3)).astype("float32")
        yield {"image": images}, random.randint(0, 5, 32)


class Momentum(keras.optimizers.SGD):
    """Momentum of TensorFlow 1: the velocity is one of gradients, without the rate."""

    def update_step(self, gradient, variable, learning_rate):
        momentum = self.momentums[self._get_variable_index(variable)]
        momentum.assign(self.momentum * momentum + gradient)
        variable.assign_sub(learning_rate * momentum)


def build_model():
    l2 = keras.regularizers.L2(1e-3 / 2)
    image = net = keras.Input((8, 8, 3), name="image")
    for filters in (8, 16):
        net = layers.Conv2D(
            filters, 3, strides=2, padding="same", use_bias=False, kernel_regularizer=l2
        )(net)
        net = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(net)
        net = layers.ReLU()(net)
    net = layers.GlobalAveragePooling2D()(net)
    logits = layers.Dense(5, kernel_regularizer=l2, bias_regularizer=l2)(net)
    model = keras.Model({"image": image}, logits)
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5, staircase=True)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(Momentum(rate, momentum=0.9), loss)
    return model
