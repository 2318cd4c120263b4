"""The digits that come with scikit-learn: 1,797 images of 8 x 8 pixels."""

import numpy as np
import tensorflow as tf
from sklearn import datasets

NUM_TRAINING_IMAGES = 1437


def load_digits(is_training, batch_size):
    digits = datasets.load_digits()
    order = np.random.RandomState(0).permutation(len(digits.target))
    part = slice(None, NUM_TRAINING_IMAGES) if is_training else slice(NUM_TRAINING_IMAGES, None)
    images = digits.data[order][part].astype(np.float32) / 16
    labels = digits.target[order][part].astype(np.int64)
    dataset = tf.data.Dataset.from_tensor_slices(({"image": images}, labels))
    if is_training:
        dataset = dataset.shuffle(NUM_TRAINING_IMAGES)
    return dataset.batch(batch_size)
