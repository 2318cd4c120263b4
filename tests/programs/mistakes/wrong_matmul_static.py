"""Wrong matmul static."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class WrongMatmulStatic(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.matmul(tf.ones([2, 3]), tf.ones([4, 5])) + labels)  # HERE
