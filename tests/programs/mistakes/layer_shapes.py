"""Layer shapes."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class LayerShapes(SmallTask):
    """A task with this mistake."""

    def build_inputs(self, params, input_context=None):
        dataset = super().build_inputs(params, input_context)
        return dataset.map(lambda features, labels: (tf.tile(features, [1, 2]), labels))
