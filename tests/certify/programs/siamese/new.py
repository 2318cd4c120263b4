import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        pair = [random.rand(32, 8, 8).astype("float32") for _ in range(2)]
        yield pair, random.randint(0, 2, (32, 1)).astype("float32")


def euclidean_distance(vectors):
    x, y = vectors
    sum_square = ops.sum(ops.square(x - y), axis=1, keepdims=True)
    return ops.sqrt(ops.maximum(sum_square, keras.config.epsilon()))


def contrastive_loss(y_true, y_pred, margin=1.0):
    square_pred = tf.square(y_pred)
    margin_square = tf.square(tf.maximum(margin - y_pred, 0))
    return tf.reduce_mean(y_true * square_pred + (1 - y_true) * margin_square)


def create_base_network():
    inputs = layers.Input(shape=(8, 8))
    x = layers.Flatten()(inputs)
    x = layers.Dense(16, activation="relu")(x)
    x = layers.Dropout(0.1)(x)
    x = layers.Dense(8, activation="relu")(x)
    return keras.Model(inputs, x)


def build_model():
    base_network = create_base_network()
    input_a, input_b = layers.Input(shape=(8, 8)), layers.Input(shape=(8, 8))
    codes = [base_network(input_a), base_network(input_b)]
    distance = layers.Lambda(euclidean_distance, output_shape=(1,))(codes)
    model = keras.Model([input_a, input_b], distance)
    model.compile(loss=contrastive_loss, optimizer=keras.optimizers.RMSprop())
    return model
