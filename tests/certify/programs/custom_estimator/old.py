"""An Estimator of one's own whose rate decays, for TPUs if there are some."""

import tensorflow as tf

PARAMS = {"use_tpu": False, "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-3}


def model_fn(features, labels, mode, params):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = features["image"]
    for filters in (8, 16):
        net = tf.layers.conv2d(net, filters, 3, strides=2, padding="same", use_bias=False)
        net = tf.layers.batch_normalization(net, training=is_training, momentum=0.9, epsilon=1e-5)
        net = tf.nn.relu(net)
    net = tf.reduce_mean(net, [1, 2])
    logits = tf.layers.dense(net, 5)
    predictions = {"logits": logits, "classes": tf.argmax(logits, axis=1)}
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss += params["weight_decay"] * tf.add_n([
        tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_normalization" not in v.name
    ])  # fmt: skip
    train_op = None
    if is_training:
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(params["learning_rate"], step, 4, 0.5, staircase=True)
        optimizer = tf.train.MomentumOptimizer(rate, params["momentum"])
        if params["use_tpu"]:
            optimizer = tf.tpu.CrossShardOptimizer(optimizer)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)


def build_estimator():
    return tf.estimator.Estimator(model_fn, params=PARAMS)
