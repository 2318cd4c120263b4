"""No super init."""

import keras

from small_task import SmallTask, register


@register
class NoSuperInit(SmallTask):
    """A task with this mistake."""

    def build_model(self):
        return Model()


class Model(keras.Model):
    """Forgets `super().__init__()`."""

    def __init__(self):  # HERE
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)
