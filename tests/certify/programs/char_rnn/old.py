"""Next characters by a stack of LSTMs whose state begins at zero."""

import tensorflow as tf


def build(features, labels, is_training, vocab_size=20, rnn_size=8, num_layers=2):
    def make_cell():
        cell = tf.nn.rnn_cell.BasicLSTMCell(rnn_size)
        if is_training:
            cell = tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=0.9)
        return cell

    cell = tf.nn.rnn_cell.MultiRNNCell([make_cell() for _ in range(num_layers)])
    state = cell.zero_state(tf.shape(features)[0], tf.float32)
    with tf.variable_scope("rnnlm"):
        embedding = tf.get_variable("embedding", [vocab_size, rnn_size])
        softmax_w = tf.get_variable("softmax_w", [rnn_size, vocab_size])
        softmax_b = tf.get_variable("softmax_b", [vocab_size])
    inputs = tf.nn.embedding_lookup(embedding, features)
    outputs, _ = tf.nn.dynamic_rnn(cell, inputs, initial_state=state)
    flat = tf.reshape(outputs, [-1, rnn_size])
    logits = tf.matmul(flat, softmax_w) + softmax_b
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(labels, [-1]), logits=logits
    )
    cost = tf.reduce_mean(losses)
    variables = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(cost, variables), 5.0)
    train_op = tf.train.AdamOptimizer(0.002).apply_gradients(zip(grads, variables, strict=True))
    return logits, cost, train_op
