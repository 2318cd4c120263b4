"""Wide and deep over columns, by a premade Estimator with two optimizers."""

import tensorflow as tf


def build_columns():
    fc = tf.feature_column
    occupation = fc.categorical_column_with_identity("occupation", 6)
    education = fc.categorical_column_with_identity("education", 4)
    wide = [occupation, education]
    deep = [
        fc.numeric_column("age"),
        fc.numeric_column("hours"),
        fc.embedding_column(occupation, dimension=3),
        fc.indicator_column(education),
    ]
    return wide, deep


def build_estimator():
    wide, deep = build_columns()
    return tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide,
        linear_optimizer=tf.train.FtrlOptimizer(0.1),
        dnn_feature_columns=deep,
        dnn_optimizer=tf.train.AdagradOptimizer(0.05),
        dnn_hidden_units=[10, 5],
        loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
    )
