"""A model of Keras 2 whose optimizer, loss and metrics the trial describes."""

from typing import Any, Callable, Dict

import tensorflow as tf
from keras.layers import Conv2D, Dense, Dropout, Flatten
from keras.losses import categorical_crossentropy
from keras.metrics import categorical_accuracy
from keras.models import Sequential
from keras.optimizers import RMSprop

from quintain.trials.keras import KerasTrial


def categorical_error(y_true, y_pred):
    return 1.0 - categorical_accuracy(y_true, y_pred)


class DigitsTrial(KerasTrial):
    def __init__(self, hparams: Dict[str, Any]):
        self.my_batch_size = hparams["batch_size"]
        self.learning_rate = hparams["learning_rate"]
        self.learning_rate_decay = hparams["learning_rate_decay"]

    def session_config(self, hparams: Dict[str, Any]) -> tf.ConfigProto:
        return tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)

    def build_model(self, hparams: Dict[str, Any]) -> Sequential:
        model = Sequential()
        model.add(Conv2D(8, (3, 3), activation="relu", input_shape=(8, 8, 1)))
        model.add(Flatten())
        model.add(Dropout(hparams["dropout"]))
        model.add(Dense(10, activation="softmax"))
        return model

    def optimizer(self):
        return RMSprop(lr=self.learning_rate, decay=self.learning_rate_decay)

    def loss(self) -> Callable:
        return categorical_crossentropy

    def batch_size(self) -> int:
        return self.my_batch_size

    def training_metrics(self) -> Dict[str, Callable]:
        return {"categorical_accuracy": categorical_accuracy}

    def validation_metrics(self) -> Dict[str, Callable]:
        return {"validation_error": categorical_error}
