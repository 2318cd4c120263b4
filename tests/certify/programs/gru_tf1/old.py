"""Intents of utterances by a GRU of TensorFlow 1."""

import tensorflow as tf


def intent_model(features, labels):
    embeddings = tf.get_variable("embeddings", [30, 6], initializer=tf.random_normal_initializer())
    inputs = tf.nn.embedding_lookup(embeddings, features)
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(5), inputs, dtype=tf.float32)
    pooled = tf.reduce_mean(outputs, axis=1)
    logits = tf.layers.dense(pooled, 3, name="intent")
    loss = tf.losses.softmax_cross_entropy(tf.one_hot(labels, 3), logits)
    return logits, loss, tf.train.AdagradOptimizer(0.1).minimize(loss)
