"""Loads sentences and their topics."""
import dataclasses
from typing import Mapping, Optional

import tensorflow as tf

from quintain.common import dataset_fn
from quintain.core import config_definitions as cfg
from quintain.core import input_reader
from quintain.nlp.data import data_loader
from quintain.nlp.data import data_loader_factory


@dataclasses.dataclass
class TopicDataConfig(cfg.DataConfig):
  """Data config for topic classification."""
  input_path: str = ''
  global_batch_size: int = 32
  is_training: bool = True
  seq_length: int = 16
  # Share of words that are replaced by [UNK] in training.
  word_dropout: float = 0.0
  file_type: str = 'tfrecord'


@data_loader_factory.register_data_loader_cls(TopicDataConfig)
class TopicDataLoader(data_loader.DataLoader):
  """A class to load sentences for topic classification."""

  def __init__(self, params):
    self._params = params
    self._seq_length = params.seq_length

  def _decode(self, record: tf.Tensor):
    name_to_features = {
        'word_ids': tf.io.VarLenFeature(tf.int64),
        'topic': tf.io.FixedLenFeature([], tf.int64),
    }
    example = tf.io.parse_single_example(record, name_to_features)
    example['word_ids'] = tf.sparse.to_dense(example['word_ids'])
    return {name: tf.cast(t, tf.int32) for name, t in example.items()}

  def _parse(self, record: Mapping[str, tf.Tensor]):
    words = record['word_ids'][:self._seq_length]
    if self._params.is_training and self._params.word_dropout:
      dropped = tf.random.uniform(tf.shape(words)) < self._params.word_dropout
      words = tf.where(dropped, tf.ones_like(words), words)
    padding = [[0, self._seq_length - tf.shape(words)[0]]]
    mask = tf.pad(tf.ones_like(words), padding)
    words = tf.ensure_shape(tf.pad(words, padding), [self._seq_length])
    mask = tf.ensure_shape(mask, [self._seq_length])
    x = {
        'input_word_ids': words,
        'input_mask': mask,
        'input_type_ids': tf.zeros_like(words),
    }
    return x, record['topic']

  def load(self, input_context: Optional[tf.distribute.InputContext] = None):
    """Returns a tf.dataset.Dataset."""
    reader = input_reader.InputReader(
        params=self._params,
        dataset_fn=dataset_fn.pick_dataset_fn(self._params.file_type),
        decoder_fn=self._decode,
        parser_fn=self._parse)
    return reader.read(input_context)
