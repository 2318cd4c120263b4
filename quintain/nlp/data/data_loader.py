"""Base class of text data loaders: batches for one worker."""

import abc

import tensorflow as tf


class DataLoader(abc.ABC):
    """Makes the batches that a data config describes.

    A loader is built with its config as the only argument; see
    `data_loader_factory.register_data_loader_cls`.
    """

    @abc.abstractmethod
    def load(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the batches of one worker.

        Args:
            input_context: Which part of the data this worker reads, and for how many replicas.
        """
