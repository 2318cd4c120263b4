"""Py function."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class PyFunction(SmallTask):
    """A task with this mistake."""

    def build_inputs(self, params, input_context=None):
        def divide(features):
            return features.numpy() / (1 // 0)  # HERE

        def convert(features, labels):
            return tf.ensure_shape(tf.py_function(divide, [features], tf.float32), [4, 2]), labels

        return super().build_inputs(params, input_context).map(convert)
