"""Zero division."""

import keras

from small_task import SmallTask, register


@register
class ZeroDivision(SmallTask):
    """A task with this mistake."""

    def build_model(self):
        width = 8 // (2 - 2)  # HERE
        return keras.Sequential([keras.Input((2,)), keras.layers.Dense(width)])
