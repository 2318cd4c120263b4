"""Masks of cells by a U-Net with a Dice loss, in Keras 2."""

import tensorflow as tf
from tensorflow.keras import backend, layers


def dice_loss(y_true, y_pred, smooth=1.0):
    intersection = backend.sum(backend.flatten(y_true) * backend.flatten(y_pred))
    total = backend.sum(y_true) + backend.sum(y_pred)
    return 1.0 - (2.0 * intersection + smooth) / (total + smooth)


def bce_dice(y_true, y_pred):
    return tf.keras.losses.binary_crossentropy(y_true, y_pred) + dice_loss(y_true, y_pred)


def double_conv(x, filters):
    for _ in range(2):
        x = layers.Conv2D(
            filters, 3, activation="relu", padding="same", kernel_initializer="he_normal"
        )(x)
    return x


def build_model():
    inputs = layers.Input((16, 16, 1))
    skips, x = [], inputs
    for filters in (4, 8):
        x = double_conv(x, filters)
        skips.append(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Dropout(0.2)(double_conv(x, 16))
    for filters, skip in zip((8, 4), reversed(skips), strict=True):
        x = layers.Conv2DTranspose(filters, 2, strides=2, padding="same")(x)
        x = double_conv(layers.concatenate([x, skip]), filters)
    outputs = layers.Conv2D(1, 1, activation="sigmoid")(x)
    model = tf.keras.Model(inputs, outputs)
    model.compile(tf.keras.optimizers.Adam(1e-3), bce_dice)
    return model
