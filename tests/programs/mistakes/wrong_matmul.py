"""Wrong matmul."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class WrongMatmul(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.matmul(labels, model_outputs[:3]))  # HERE
