"""Classes of sentences by the last state of a dynamic RNN, with clipped gradients."""

import tensorflow as tf


def build(features, labels, is_training):
    lengths = tf.reduce_sum(tf.sign(features), axis=1)
    table = tf.get_variable(
        "embedding", [40, 8], initializer=tf.random_uniform_initializer(-0.25, 0.25)
    )
    x = tf.nn.embedding_lookup(table, features)
    cell = tf.nn.rnn_cell.LSTMCell(6)
    if is_training:
        cell = tf.nn.rnn_cell.DropoutWrapper(cell, input_keep_prob=0.8)
    _, state = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
    logits = tf.layers.dense(state.h, 4, name="softmax")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.5)
    train_op = tf.train.GradientDescentOptimizer(0.5).apply_gradients(
        zip(gradients, variables, strict=True)
    )
    return logits, loss, train_op
