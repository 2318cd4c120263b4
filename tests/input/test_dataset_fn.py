import pytest
import tensorflow as tf

from quintain import errors
from quintain.input import dataset_fn


def test_plain_records_are_read_by_tensorflow_itself():
    assert dataset_fn.pick_dataset_fn("tfrecord") is tf.data.TFRecordDataset


def test_compressed_records_need_no_special_name(tmp_path):
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path, options="GZIP") as writer:
        writer.write(b"7")

    compressed = dataset_fn.pick_dataset_fn("tfrecord_compressed")(path)

    assert list(compressed.as_numpy_iterator()) == [b"7"]


def test_an_unknown_type_is_an_error():
    with pytest.raises(
        errors.ConfigError,
        match="file_type: got 'tfrecrd', expected 'tfrecord' or 'tfrecord_compressed'",
    ):
        dataset_fn.pick_dataset_fn("tfrecrd")
