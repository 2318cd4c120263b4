"""Failing assertion."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class FailingAssertion(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):
        loss = tf.reduce_mean(tf.square(labels - model_outputs))
        tf.Assert(loss > 1e9, ["loss is too small"])  # HERE
        return loss
