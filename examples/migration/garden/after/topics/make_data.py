"""Writes TFRecords of sentences about five topics, as a preprocessing job would."""
import os

from absl import app
from absl import flags
import numpy as np
import tensorflow as tf

FLAGS = flags.FLAGS
flags.DEFINE_string('output_dir', None, 'Where train.tfrecord and valid.tfrecord go.')
flags.DEFINE_integer('num_examples', 512, 'Sentences to train on.')

NUM_TOPICS = 5
WORDS_PER_TOPIC = 12
FIRST_WORD = 4  # After [PAD], [UNK], [CLS] and [SEP].
VOCAB_SIZE = FIRST_WORD + NUM_TOPICS * WORDS_PER_TOPIC


def _int64s(values):
  return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _make_example(rng):
  topic = int(rng.integers(NUM_TOPICS))
  words = rng.integers(FIRST_WORD, VOCAB_SIZE, rng.integers(4, 12))
  about = rng.random(len(words)) < 0.7
  words[about] = FIRST_WORD + topic * WORDS_PER_TOPIC + words[about] % WORDS_PER_TOPIC
  features = tf.train.Features(feature={
      'word_ids': _int64s([2, *words, 3]),
      'topic': _int64s([topic]),
  })
  return tf.train.Example(features=features)


def write(path, num_examples, seed):
  rng = np.random.default_rng(seed)
  with tf.io.TFRecordWriter(path) as writer:
    for _ in range(num_examples):
      writer.write(_make_example(rng).SerializeToString())


def main(_):
  tf.io.gfile.makedirs(FLAGS.output_dir)
  write(os.path.join(FLAGS.output_dir, 'train.tfrecord'), FLAGS.num_examples, seed=1)
  write(os.path.join(FLAGS.output_dir, 'valid.tfrecord'), 100, seed=2)


if __name__ == '__main__':
  flags.mark_flag_as_required('output_dir')
  app.run(main)
