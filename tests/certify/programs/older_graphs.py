"""Graphs and Estimators of TensorFlow 1, as people wrote them."""

import tensorflow as tf


def batch_norm(features, labels, mode):
    """Forgets the updates of moving averages."""
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    x = tf.layers.dense(features, 8, name="hidden")
    x = tf.nn.relu(tf.layers.batch_normalization(x, training=is_training))
    logits = tf.layers.dense(x, 3, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    step = tf.train.get_global_step()
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    predictions = {"probabilities": tf.nn.softmax(logits), "classes": tf.argmax(logits, 1)}
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)


def lstm(features, labels):
    with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-0.05, 0.05)):
        table = tf.get_variable("table", [20, 6])
        x = tf.nn.embedding_lookup(table, features)
        cell = tf.nn.rnn_cell.BasicLSTMCell(5)
        outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
        logits = tf.layers.dense(outputs[:, -1], 3)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss)


def canned():
    """A premade Estimator over columns, which sums the losses of examples."""
    return premade()


def canned_mean():
    return premade(loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE)


def premade(**given):
    kinds = tf.feature_column.categorical_column_with_identity("kind", 20)
    columns = [
        tf.feature_column.numeric_column("size", shape=[2]),
        tf.feature_column.embedding_column(kinds, 4),
    ]
    return tf.estimator.DNNClassifier(
        hidden_units=[8],
        feature_columns=columns,
        n_classes=3,
        optimizer=lambda: tf.train.GradientDescentOptimizer(0.05),
        **given,
    )


def images(features, labels, is_training):
    """A slim sort of network: weights with L2, dropout by the share that is kept."""
    l2 = tf.keras.regularizers.l2(0.001)
    x = tf.layers.conv2d(
        features, 4, 3, strides=2, padding="same", activation=tf.nn.relu, kernel_regularizer=l2
    )
    x = tf.layers.flatten(x)
    x = tf.nn.dropout(x, keep_prob=0.9 if is_training else 1.0)
    logits = tf.layers.dense(x, 3, kernel_regularizer=l2)
    loss = (
        tf.losses.sparse_softmax_cross_entropy(labels, logits) + tf.losses.get_regularization_loss()
    )
    optimizer = tf.train.MomentumOptimizer(0.05, 0.9)
    return {
        "predictions": logits,
        "loss": loss,
        "train_op": optimizer.minimize(loss, tf.train.get_global_step()),
    }


def factors(features, labels):
    """A recommender by factors of users and items."""
    users = tf.get_variable("users", [20, 4], initializer=tf.random_normal_initializer(stddev=0.05))
    items = tf.get_variable("items", [20, 4], initializer=tf.random_normal_initializer(stddev=0.05))
    u = tf.nn.embedding_lookup(users, features["user"])
    i = tf.nn.embedding_lookup(items, features["item"])
    rating = tf.reduce_sum(u * i, axis=1)
    loss = tf.losses.mean_squared_error(labels, rating)
    return rating, loss, tf.train.GradientDescentOptimizer(0.5).minimize(loss)


def decayed_momentum(features, labels, is_training):
    x = tf.layers.dense(features, 8, activation=tf.nn.relu)
    logits = tf.layers.dense(tf.layers.dropout(x, 0.2, training=is_training), 3)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    step = tf.train.get_global_step()
    rate = tf.train.exponential_decay(0.1, step, 4, 0.5, staircase=True)
    return logits, loss, tf.train.MomentumOptimizer(rate, 0.9).minimize(loss, step)


def kept_share(features, labels, is_training):
    """Dropout of the first kind: values are made smaller when nothing is dropped."""
    x = tf.layers.dense(features, 8, activation=tf.nn.relu)
    x = 0.8 * (tf.nn.dropout(x, keep_prob=0.8) if is_training else x)
    logits = tf.layers.dense(x, 3)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    return logits, loss, tf.train.AdamOptimizer(0.01).minimize(loss)
