"""A compiled Keras model."""

import keras
import numpy as np
import tensorflow as tf
from sklearn import datasets

from quintain.trials import KerasTrial

NUM_TRAINING_IMAGES = 1437


class DigitsTrial(KerasTrial):
    def __init__(self, context):
        self.context = context
        digits = datasets.load_digits()
        order = np.random.RandomState(0).permutation(len(digits.target))
        self.images = digits.data[order].astype("float32") / 16
        self.labels = digits.target[order]

    def build_model(self):
        model = keras.Sequential(
            [
                keras.layers.Input((64,)),
                keras.layers.Dense(self.context.get_hparam("units"), activation="relu"),
                keras.layers.Dropout(self.context.get_hparam("dropout")),
                keras.layers.Dense(10),
            ]
        )
        model.compile(
            optimizer=keras.optimizers.Adam(self.context.get_hparam("learning_rate")),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        return model

    def build_training_data_loader(self):
        images, labels = self.images[:NUM_TRAINING_IMAGES], self.labels[:NUM_TRAINING_IMAGES]
        dataset = tf.data.Dataset.from_tensor_slices((images, labels))
        return dataset.shuffle(NUM_TRAINING_IMAGES).batch(self.context.get_global_batch_size())

    def build_validation_data_loader(self):
        images, labels = self.images[NUM_TRAINING_IMAGES:], self.labels[NUM_TRAINING_IMAGES:]
        return tf.data.Dataset.from_tensor_slices((images, labels)).batch(360)
