"""Undefined name."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class UndefinedName(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(label - model_outputs))  # HERE
