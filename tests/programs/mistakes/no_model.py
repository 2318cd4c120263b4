"""No model."""

import keras

from small_task import SmallTask, register


@register
class NoModel(SmallTask):
    """A task with this mistake."""

    def build_model(self):  # HERE
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
