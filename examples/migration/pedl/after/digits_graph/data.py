"""The digits of scikit-learn, which stand for data that are downloaded once."""

import os
import tempfile

import numpy as np
import quintain.trials as pedl
import tensorflow as tf
from sklearn import datasets


def download_data(experiment_config, hparams):
    directory = tempfile.mkdtemp()
    digits = datasets.load_digits()
    images = (digits.data / 16).astype(np.float32)
    np.savez(os.path.join(directory, "digits.npz"), images=images, labels=digits.target)
    return directory


def make_data_loaders(experiment_config, hparams):
    path = os.path.join(pedl.get_download_data_dir(), "digits.npz")
    with np.load(path) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    split = experiment_config["data"]["num_training_images"]
    train = tf.data.Dataset.from_tensor_slices({"image": images[:split], "label": labels[:split]})
    val = tf.data.Dataset.from_tensor_slices({"image": images[split:], "label": labels[split:]})
    return train.shuffle(split).batch(hparams["batch_size"]), val.batch(hparams["batch_size"])
