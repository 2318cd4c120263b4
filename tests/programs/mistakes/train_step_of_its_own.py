"""Train step of its own."""

import tensorflow as tf

from small_task import SmallTask, register


@register
class TrainStepOfItsOwn(SmallTask):
    """A task with this mistake."""

    def train_step(self, inputs, model, optimizer, metrics=None):
        _, labels = inputs
        return {"loss": tf.reduce_mean(labels) * self.scale}  # HERE
