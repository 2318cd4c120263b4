"""Residual blocks with batch norm, in Keras 2."""

import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.regularizers import l2

WEIGHT_DECAY = 1e-4


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


def create_model():
    inputs = layers.Input(shape=(12, 12, 3))
    x = conv_bn(inputs, 8)
    x = block(x, 8, 1)
    x = block(x, 16, 2)
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(10, activation="softmax", kernel_initializer="he_normal")(x)
    model = tf.keras.Model(inputs, outputs)
    model.compile(
        loss="categorical_crossentropy",
        optimizer=tf.keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        metrics=["accuracy"],
    )
    return model
