"""Pairs of images by the distance of their codes, with a contrastive loss."""

import tensorflow as tf
from tensorflow.keras import backend, layers


def euclidean_distance(vectors):
    x, y = vectors
    sum_square = backend.sum(backend.square(x - y), axis=1, keepdims=True)
    return backend.sqrt(backend.maximum(sum_square, backend.epsilon()))


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
    return tf.keras.Model(inputs, x)


def build_model():
    base_network = create_base_network()
    input_a, input_b = layers.Input(shape=(8, 8)), layers.Input(shape=(8, 8))
    codes = [base_network(input_a), base_network(input_b)]
    distance = layers.Lambda(euclidean_distance, output_shape=(1,))(codes)
    model = tf.keras.Model([input_a, input_b], distance)
    model.compile(loss=contrastive_loss, optimizer=tf.keras.optimizers.RMSprop())
    return model
