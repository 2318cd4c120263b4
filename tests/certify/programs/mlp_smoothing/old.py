"""A perceptron with L2 and label smoothing, whose rate is warmed up."""

import tensorflow as tf


def build(features, labels, is_training):
    regularizer = tf.keras.regularizers.l2(5e-4)
    net = features
    for number, units in enumerate((32, 16)):
        net = tf.layers.dense(
            net, units, activation=tf.nn.tanh, kernel_regularizer=regularizer, name=f"fc{number}",
            kernel_initializer=tf.variance_scaling_initializer(),
        )  # fmt: skip
        net = tf.layers.dropout(net, 0.25, training=is_training)
    logits = tf.layers.dense(net, 6, name="logits")
    one_hot = tf.one_hot(labels, 6)
    tf.losses.softmax_cross_entropy(one_hot, logits, label_smoothing=0.1)
    loss = tf.losses.get_total_loss()
    step = tf.train.get_global_step()
    rate = 0.01 * tf.minimum(1.0, tf.cast(step + 1, tf.float32) / 5.0)
    train_op = tf.train.AdamOptimizer(rate).minimize(loss, step)
    return {"predictions": logits, "loss": loss, "train_op": train_op}
