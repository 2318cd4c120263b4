"""Skip-grams by noise-contrastive estimation."""

import math

import tensorflow as tf


def build(features, labels):
    vocabulary_size, embedding_size, num_sampled = 60, 8, 10
    embeddings = tf.Variable(tf.random_uniform([vocabulary_size, embedding_size], -1.0, 1.0))
    embed = tf.nn.embedding_lookup(embeddings, features)
    stddev = 1.0 / math.sqrt(embedding_size)
    nce_weights = tf.Variable(tf.truncated_normal([vocabulary_size, embedding_size], stddev=stddev))
    nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=nce_weights, biases=nce_biases, labels=labels, inputs=embed,
            num_sampled=num_sampled, num_classes=vocabulary_size,
        )
    )  # fmt: skip
    return embed, loss, tf.train.GradientDescentOptimizer(1.0).minimize(loss)
