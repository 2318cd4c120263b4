"""DeepFM over indices and values of fields."""

import tensorflow as tf


def build(features, labels, is_training):
    field_size, feature_size, embedding_size = 5, 40, 4
    ids, vals = features["feat_ids"], features["feat_vals"]
    fm_b = tf.get_variable("fm_bias", shape=[1], initializer=tf.constant_initializer(0.0))
    fm_w = tf.get_variable("fm_w", shape=[feature_size], initializer=tf.glorot_normal_initializer())
    fm_v = tf.get_variable(
        "fm_v", shape=[feature_size, embedding_size], initializer=tf.glorot_normal_initializer()
    )
    with tf.variable_scope("First-order"):
        y_w = tf.reduce_sum(tf.multiply(tf.nn.embedding_lookup(fm_w, ids), vals), 1)
    with tf.variable_scope("Second-order"):
        embeddings = tf.nn.embedding_lookup(fm_v, ids)
        embeddings = tf.multiply(embeddings, tf.reshape(vals, shape=[-1, field_size, 1]))
        sum_square = tf.square(tf.reduce_sum(embeddings, 1))
        square_sum = tf.reduce_sum(tf.square(embeddings), 1)
        y_v = 0.5 * tf.reduce_sum(tf.subtract(sum_square, square_sum), 1)
    with tf.variable_scope("Deep-part"):
        deep = tf.reshape(embeddings, shape=[-1, field_size * embedding_size])
        for number, units in enumerate((16, 8)):
            deep = tf.layers.dense(deep, units, activation=tf.nn.relu, name=f"mlp{number}")
            if is_training:
                deep = tf.nn.dropout(deep, keep_prob=0.5)
        y_d = tf.reshape(tf.layers.dense(deep, 1, name="deep_out"), shape=[-1])
    y = fm_b * tf.ones_like(y_d) + y_w + y_v + y_d
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(logits=y, labels=labels)
    loss = tf.reduce_mean(entropy) + 1e-3 * tf.nn.l2_loss(fm_w) + 1e-3 * tf.nn.l2_loss(fm_v)
    optimizer = tf.train.AdamOptimizer(5e-4, beta1=0.9, beta2=0.999, epsilon=1e-8)
    return {
        "predictions": tf.sigmoid(y),
        "loss": loss,
        "train_op": optimizer.minimize(loss, global_step=tf.train.get_global_step()),
    }
