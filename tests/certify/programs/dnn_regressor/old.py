"""Fuel of cars by a premade deep Estimator."""

import tensorflow as tf


def build_estimator():
    origin = tf.feature_column.categorical_column_with_identity("origin", 3)
    columns = [
        tf.feature_column.numeric_column("weight"),
        tf.feature_column.numeric_column("power"),
        tf.feature_column.indicator_column(origin),
    ]
    return tf.estimator.DNNRegressor(
        hidden_units=[12, 6],
        feature_columns=columns,
        optimizer=tf.train.ProximalAdagradOptimizer(0.01, l2_regularization_strength=0.001),
        dropout=0.1,
    )
