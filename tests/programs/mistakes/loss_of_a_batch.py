"""Loss of a batch."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class LossOfABatch(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):  # HERE
        return tf.square(labels - model_outputs)
