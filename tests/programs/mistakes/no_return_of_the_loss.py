"""No return of the loss."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class NoReturnOfTheLoss(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):  # HERE
        tf.reduce_mean(tf.square(labels - model_outputs))
