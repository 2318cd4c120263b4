"""Nothing to train."""

import keras

from small_task import SmallTask, register


@register
class NothingToTrain(SmallTask):
    """A task with this mistake."""

    def build_model(self):  # HERE
        return keras.Sequential([keras.Input((2,)), keras.layers.Rescaling(2.0)])
