"""The digits that come with scikit-learn: 1,797 images of 8 x 8 pixels."""

import numpy as np
import tensorflow as tf
from sklearn import datasets


def make_data_loaders(experiment_config, hparams):
    digits = datasets.load_digits()
    order = np.random.RandomState(0).permutation(len(digits.target))
    images = digits.data[order].astype(np.float32) / 16
    labels = digits.target[order].astype(np.int64)
    split = experiment_config["data"]["num_training_images"]
    train = tf.data.Dataset.from_tensor_slices({"image": images[:split], "label": labels[:split]})
    val = tf.data.Dataset.from_tensor_slices({"image": images[split:], "label": labels[split:]})
    train = (
        train.shuffle(split).batch(hparams["batch_size"]).prefetch(tf.data.experimental.AUTOTUNE)
    )
    val = val.batch(hparams["batch_size"])
    return train, val
