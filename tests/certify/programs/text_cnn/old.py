"""Kim's network for sentences, with variables of its own."""

import tensorflow as tf

VOCABULARY, EMBEDDING, FILTERS, CLASSES = 50, 8, 4, 2
SIZES = (3, 4, 5)


def text_cnn(features, labels, is_training, length=12, l2_lambda=0.01):
    keep_prob = 0.5 if is_training else 1.0
    l2_loss = tf.constant(0.0)
    with tf.name_scope("embedding"):
        table = tf.Variable(tf.random_uniform([VOCABULARY, EMBEDDING], -1.0, 1.0), name="W")
        chars = tf.expand_dims(tf.nn.embedding_lookup(table, features), -1)
    pooled = []
    for size in SIZES:
        with tf.name_scope(f"conv-maxpool-{size}"):
            shape = [size, EMBEDDING, 1, FILTERS]
            w = tf.Variable(tf.truncated_normal(shape, stddev=0.1), name="W")
            b = tf.Variable(tf.constant(0.1, shape=[FILTERS]), name="b")
            conv = tf.nn.conv2d(chars, w, strides=[1, 1, 1, 1], padding="VALID", name="conv")
            h = tf.nn.relu(tf.nn.bias_add(conv, b), name="relu")
            window = [1, length - size + 1, 1, 1]
            pooled.append(tf.nn.max_pool(h, ksize=window, strides=[1, 1, 1, 1], padding="VALID"))
    total = FILTERS * len(SIZES)
    flat = tf.reshape(tf.concat(pooled, 3), [-1, total])
    with tf.name_scope("dropout"):
        dropped = tf.nn.dropout(flat, keep_prob)
    with tf.name_scope("output"):
        initializer = tf.glorot_uniform_initializer()
        w = tf.get_variable("W", shape=[total, CLASSES], initializer=initializer)
        b = tf.Variable(tf.constant(0.1, shape=[CLASSES]), name="b")
        l2_loss += tf.nn.l2_loss(w) + tf.nn.l2_loss(b)
        scores = tf.nn.xw_plus_b(dropped, w, b, name="scores")
    losses = tf.nn.softmax_cross_entropy_with_logits(logits=scores, labels=labels)
    loss = tf.reduce_mean(losses) + l2_lambda * l2_loss
    optimizer = tf.train.AdamOptimizer(1e-3)
    train_op = optimizer.apply_gradients(optimizer.compute_gradients(loss))
    return scores, loss, train_op
