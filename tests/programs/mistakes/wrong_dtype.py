"""Wrong dtype."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class WrongDtype(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.cast(labels, tf.int32) - model_outputs)  # HERE
