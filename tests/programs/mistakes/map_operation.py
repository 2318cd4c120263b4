"""Map operation."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class MapOperation(SmallTask):
    """A task with this mistake."""

    def build_inputs(self, params, input_context=None):
        def check(features, labels):
            tf.Assert(tf.reduce_all(labels > 100.0), ["negative"])  # HERE
            return features, labels

        return super().build_inputs(params, input_context).map(check)
