import keras
import numpy as np
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        images = random.normal(size=(32, 16, 16, 3)).astype("float32")
        yield images, random.randint(0, 5, 32)


def depthwise_block(x, filters, stride):
    if stride == 2:
        x = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
    x = layers.DepthwiseConv2D(
        3, strides=stride, padding="same" if stride == 1 else "valid", use_bias=False
    )(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU(6.0)(x)
    x = layers.Conv2D(filters, 1, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU(6.0)(x)


def build_model():
    inputs = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU(6.0)(x)
    x = depthwise_block(x, 8, 1)
    x = depthwise_block(x, 16, 2)
    x = layers.SeparableConv2D(16, 3, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(1e-3)(x)
    outputs = layers.Dense(5, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.RMSprop(0.002, rho=0.9, momentum=0.9),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model
