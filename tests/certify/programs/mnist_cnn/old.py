"""Digits by a convolutional network, as a graph for a session."""

import tensorflow as tf


def build(features, labels, is_training):
    images = tf.reshape(features, [-1, 14, 14, 1])
    conv1 = tf.layers.conv2d(images, 8, [5, 5], padding="same", activation=tf.nn.relu, name="conv1")
    pool1 = tf.layers.max_pooling2d(conv1, [2, 2], strides=2)
    conv2 = tf.layers.conv2d(pool1, 16, [5, 5], padding="same", activation=tf.nn.relu, name="conv2")
    pool2 = tf.layers.max_pooling2d(conv2, [2, 2], strides=2)
    flat = tf.reshape(pool2, [-1, 3 * 3 * 16])
    dense = tf.layers.dense(flat, 64, activation=tf.nn.relu, name="fc1")
    dropout = tf.layers.dropout(dense, rate=0.4, training=is_training)
    logits = tf.layers.dense(dropout, 10, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    train_op = tf.train.AdamOptimizer(1e-3).minimize(loss)
    return logits, loss, train_op
