"""Generator."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class Generator(SmallTask):
    """A task with this mistake."""

    def build_inputs(self, params, input_context=None):
        def generate():
            yield [1.0, 2.0], [3.0]
            yield {"label": 1}["text"], [1.0]  # HERE

        signature = (tf.TensorSpec([2]), tf.TensorSpec([1]))
        return tf.data.Dataset.from_generator(generate, output_signature=signature).batch(2)
