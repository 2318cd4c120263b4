"""Base class of text data loaders: batches for one worker."""

import abc
from collections.abc import Mapping

import tensorflow as tf

from quintain.input import input_reader, input_sources
from quintain.settings import config_definitions as cfg


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


def find_files(params: cfg.DataConfig) -> list[str]:
    """Returns all files that the `input_path` of a config matches; none for TensorFlow Datasets.

    Raises:
        DataError: If a pattern matches none.
    """
    if params.tfds_name:
        return []
    return [
        path
        for source in input_sources.get_sources(params)
        for path in input_reader.match_files(source.location, name=source.field)
    ]


def list_paths(params: cfg.DataConfig) -> list[str]:
    """Returns the paths and patterns in the `input_path` of a config; none for other sources."""
    if params.tfds_name or not params.input_path:
        return []
    return [
        path
        for source in input_sources.get_sources(params)
        for path in input_reader.split_paths(source.location)
    ]


def to_int32(example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns an example with its int64 as int32."""
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in example.items()
    }
