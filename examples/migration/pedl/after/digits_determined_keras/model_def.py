"""A compiled model of tf.keras, as later versions have it."""

import quintain.trials as det
import numpy as np
import tensorflow as tf
from quintain.trials.keras import TFKerasTrial, TFKerasTrialContext
from sklearn import datasets
from tensorflow.keras.layers import Dense, Input
from tensorflow.keras.models import Model


class DigitsTrial(TFKerasTrial):
    def __init__(self, context: TFKerasTrialContext) -> None:
        self.context = context
        if self.context.get_hparam("units") > 1000:
            raise det.InvalidHP("too many units")
        digits = datasets.load_digits()
        self.images = (digits.data / 16).astype(np.float32)
        self.labels = digits.target

    def build_model(self) -> Model:
        inputs = Input(shape=(64,), name="image")
        hidden = Dense(self.context.get_hparam("units"), activation="relu")(inputs)
        outputs = Dense(10, activation="softmax", name="digit")(hidden)
        model = self.context.wrap_model(Model(inputs=inputs, outputs=outputs))
        optimizer = tf.keras.optimizers.Adam(self.context.get_hparam("learning_rate"))
        optimizer = self.context.wrap_optimizer(optimizer)
        model.compile(
            optimizer=optimizer,
            loss=tf.keras.losses.SparseCategoricalCrossentropy(),
            metrics=[tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        )
        return model

    def keras_callbacks(self):
        return [
            det.keras.callbacks.EarlyStopping(monitor="val_accuracy", patience=50),
            det.keras.callbacks.TensorBoard(update_freq="batch", profile_batch=0),
        ]

    def build_training_data_loader(self):
        return self.images[:1437], self.labels[:1437]

    def build_validation_data_loader(self):
        parts = (self.images[1437:], self.labels[1437:])
        dataset = self.context.wrap_dataset(tf.data.Dataset.from_tensor_slices(parts))
        return dataset.batch(self.context.get_per_slot_batch_size())
