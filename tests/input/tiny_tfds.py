"""A TensorFlow Datasets entry of our own: `tiny_pairs`, prepared without a network."""

import os

import tensorflow as tf
import tensorflow_datasets as tfds

NUM_TRAIN = 20
NUM_TEST = 5
NUM_FILES = 4


class TinyPairs(tfds.core.GeneratorBasedBuilder):
    """Numbers with a text and a picture of one pixel."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {
                    "number": tfds.features.Scalar(tf.int64),
                    "text": tfds.features.Text(),
                    "image": tfds.features.Image(shape=(1, 1, 3)),
                }
            ),
            supervised_keys=("text", "number"),
        )

    def _split_generators(self, dl_manager):
        return {
            "train": self._generate_examples(0, NUM_TRAIN),
            "test": self._generate_examples(100, NUM_TEST),
        }

    def _generate_examples(self, start, count):
        for number in range(start, start + count):
            image = tf.io.encode_png(tf.fill([1, 1, 3], tf.cast(number, tf.uint8))).numpy()
            path = os.path.join(self._data_dir_root, f"{number}.png")
            with tf.io.gfile.GFile(path, "wb") as file:
                file.write(image)
            yield number, {"number": number, "text": f"text {number}", "image": path}


def prepare(directory):
    """Writes the entry below a directory, `train` in four files."""
    config = tfds.download.DownloadConfig(num_shards=NUM_FILES)
    TinyPairs(data_dir=directory).download_and_prepare(download_config=config)
