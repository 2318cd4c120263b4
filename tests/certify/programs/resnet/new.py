import keras
import numpy as np
from keras import layers
from keras.regularizers import L2 as l2  # noqa: N811 - as the older code names it

WEIGHT_DECAY = 1e-4


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        images = random.normal(size=(32, 12, 12, 3)).astype("float32")
        yield images, np.eye(10, dtype="float32")[random.randint(0, 10, 32)]


def conv_bn(x, filters, stride=1, relu=True):
    x = layers.Conv2D(
        filters, 3, strides=stride, padding="same", use_bias=False,
        kernel_initializer="he_normal", kernel_regularizer=l2(WEIGHT_DECAY),
    )(x)  # fmt: skip
    x = layers.BatchNormalization()(x)
    return layers.Activation("relu")(x) if relu else x


def block(x, filters, stride):
    shortcut = x
    x = conv_bn(x, filters, stride)
    x = conv_bn(x, filters, relu=False)
    if stride > 1:
        shortcut = layers.Conv2D(filters, 1, strides=stride, kernel_initializer="he_normal")(
            shortcut
        )
    return layers.Activation("relu")(layers.add([shortcut, x]))


def build_model():
    inputs = layers.Input(shape=(12, 12, 3))
    x = conv_bn(inputs, 8)
    x = block(x, 8, 1)
    x = block(x, 16, 2)
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(10, activation="softmax", kernel_initializer="he_normal")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        loss="categorical_crossentropy",
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        metrics=["accuracy"],
    )
    return model
