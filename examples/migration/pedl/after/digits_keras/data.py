"""The digits of scikit-learn, as a sequence of Keras 2."""

import numpy as np
from keras.utils import np_utils
from keras.utils.data_utils import Sequence
from quintain.trials.keras.data import KerasDataAdapter
from sklearn import datasets


class Digits(Sequence):
    def __init__(self, images, labels, batch_size):
        self.images, self.labels, self.batch_size = images, labels, batch_size

    def __len__(self):
        return len(self.images) // self.batch_size

    def __getitem__(self, index):
        rows = slice(index * self.batch_size, (index + 1) * self.batch_size)
        return self.images[rows], np_utils.to_categorical(self.labels[rows], 10)


def make_data_loaders(experiment_config, hparams):
    digits = datasets.load_digits()
    images = (digits.images[..., np.newaxis] / 16).astype(np.float32)
    train = Digits(images[:1437], digits.target[:1437], hparams["batch_size"])
    validation = Digits(images[1437:], digits.target[1437:], 90)
    return KerasDataAdapter(train, workers=2, use_multiprocessing=True), validation
