"""Small data sets, written and read again."""

import pytest
import tensorflow as tf

from quintain import errors
from quintain.garden.core import file_writers, tf_example_builder


def make_examples():
    return [
        tf_example_builder.TfExampleBuilder().add_ints_feature("id", number).example
        for number in range(3)
    ]


@pytest.mark.parametrize(
    ("file_type", "compression"),
    [
        ("tfrecord", ""),
        ("TFRecords", ""),
        ("tfrecord_compressed", "GZIP"),
        ("tfrecords_gzip", "GZIP"),
    ],
)
def test_examples_are_written_in_order(tmp_path, file_type, compression):
    path = str(tmp_path / "data")

    file_writers.write_small_dataset(make_examples(), path, file_type)

    records = tf.data.TFRecordDataset(path, compression_type=compression)
    read = [tf.train.Example.FromString(record.numpy()) for record in records]
    assert read == make_examples()


@pytest.mark.parametrize(
    ("file_type", "message"),
    [("riegeli", "riegeli package is no dependency"), ("tfrecrod", "Did you mean 'tfrecord'")],
)
def test_other_types_are_errors(tmp_path, file_type, message):
    with pytest.raises(errors.ConfigError, match=message):
        file_writers.write_small_dataset([], str(tmp_path / "data"), file_type)
