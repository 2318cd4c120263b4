"""Labels out of range."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class LabelsOutOfRange(SmallTask):
    """A task with this mistake."""

    def build_losses(self, labels, model_outputs, aux_losses=None):
        labels = 9 * tf.ones([4], tf.int32)
        logits = tf.concat([model_outputs, model_outputs], axis=1)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # HERE
        return tf.reduce_mean(losses)
