"""Ratings by biases and factors of users and items, with L2."""

import tensorflow as tf


def build(features, labels, users=25, items=30, rank=4, mean=3.5, strength=0.02):
    normal = tf.truncated_normal_initializer(stddev=0.02)
    bias_user = tf.get_variable("bias_user", [users], initializer=tf.zeros_initializer())
    bias_item = tf.get_variable("bias_item", [items], initializer=tf.zeros_initializer())
    w_user = tf.get_variable("w_user", [users, rank], initializer=normal)
    w_item = tf.get_variable("w_item", [items, rank], initializer=normal)
    u, i = features["user"], features["item"]
    p, q = tf.nn.embedding_lookup(w_user, u), tf.nn.embedding_lookup(w_item, i)
    bias = tf.gather(bias_user, u) + tf.gather(bias_item, i) + mean
    prediction = tf.add(tf.reduce_sum(tf.multiply(p, q), 1), bias, name="svd")
    penalty = strength * (tf.nn.l2_loss(p) + tf.nn.l2_loss(q))
    loss = tf.nn.l2_loss(prediction - labels) + penalty
    return prediction, loss, tf.train.GradientDescentOptimizer(0.05).minimize(loss)
