import keras
import numpy as np
from keras import layers, ops


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        images = random.normal(size=(16, 16, 16, 1)).astype("float32")
        yield images, (random.rand(16, 16, 16, 1) > 0.7).astype("float32")


def dice_loss(y_true, y_pred, smooth=1.0):
    intersection = ops.sum(y_true * y_pred)
    return 1.0 - (2.0 * intersection + smooth) / (ops.sum(y_true) + ops.sum(y_pred) + smooth)


def bce_dice(y_true, y_pred):
    return keras.losses.binary_crossentropy(y_true, y_pred) + dice_loss(y_true, y_pred)


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
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(1e-3), bce_dice)
    return model
