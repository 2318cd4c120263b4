"""Wrong key."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class WrongKey(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean({"pixels": labels}["image"] - model_outputs)  # HERE
