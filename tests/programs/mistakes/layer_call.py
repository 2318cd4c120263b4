"""Layer call."""

import keras

from small_task import SmallTask, register


@register
class LayerCall(SmallTask):
    """A task with this mistake."""

    def build_model(self):
        return keras.Sequential([keras.Input((2,)), Tired(), keras.layers.Dense(1)])


class Tired(keras.layers.Layer):
    """Fails in `call`, as soon as it trains."""

    def call(self, inputs, training=False):
        if training:
            raise ValueError("this layer is tired")  # HERE
        return inputs
