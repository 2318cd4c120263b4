"""A convolutional autoencoder for noisy images, by tf.layers."""

import tensorflow as tf


def autoencoder(features, labels):
    net = tf.layers.conv2d(features, 8, 3, strides=2, padding="same", activation=tf.nn.relu)
    net = tf.layers.conv2d(net, 4, 3, strides=2, padding="same", activation=tf.nn.relu)
    net = tf.layers.conv2d_transpose(net, 8, 3, strides=2, padding="same", activation=tf.nn.relu)
    logits = tf.layers.conv2d_transpose(net, 1, 3, strides=2, padding="same")
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    cost = tf.reduce_mean(losses)
    return tf.nn.sigmoid(logits), cost, tf.train.RMSPropOptimizer(0.001).minimize(cost)
