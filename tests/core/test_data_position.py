"""An interrupted run trains on the batches that it would have seen, whatever the data."""

import gzip
import importlib
import itertools
import sys

import pytest
import tensorflow as tf

from quintain.checkpoints import checkpoint_state
from quintain.input import input_reader
from quintain.input.diagnosis import pipeline_inspection
from quintain.settings import config_definitions as cfg

NUM_BATCHES = 12


def _write_records(path, numbers, options=None):
    with tf.io.TFRecordWriter(str(path), options=options) as writer:
        for number in numbers:
            writer.write(str(number).encode())


@pytest.fixture(scope="module")
def directory(tmp_path_factory, request):
    directory = tmp_path_factory.mktemp("data")
    for i in range(3):
        numbers = range(10 * i, 10 * i + 10)
        _write_records(directory / f"{i}.tfrecord", numbers)
        _write_records(directory / f"{i}.tfrecord.gz", numbers, "GZIP")
        lines = "".join(f"{number}\n" for number in numbers).encode()
        (directory / f"{i}.txt").write_bytes(lines)
        (directory / f"{i}.txt.gz").write_bytes(gzip.compress(lines))
    sys.path.insert(0, str(request.path.parents[1] / "input"))
    try:
        importlib.import_module("tiny_tfds").prepare(str(directory))
    finally:
        sys.path.pop(0)
    return directory


KINDS = {
    "records": {"input_path": "{}/?.tfrecord"},
    "gzip": {"input_path": "{}/?.tfrecord.gz"},
    "one_file": {"input_path": "{}/0.tfrecord"},
    "text": {"input_path": "{}/?.txt"},
    "gzip_text": {"input_path": "{}/?.txt.gz"},
    "cache": {"input_path": "{}/?.tfrecord", "cache": True},
    "mixture": {
        "input_path": {
            "a": {"path": "{}/0.tfrecord", "weight": 2},
            "b": {"path": "{}/1.*record,{}/2.tfrecord", "weight": 1},
        }
    },
    "cached_mixture": {
        "cache": True,
        "input_path": {
            "a": {"path": "{}/0.tfrecord", "weight": 2},
            "b": {"path": "{}/1.tfrecord", "weight": 1},
        },
    },
    "tfds": {"tfds_name": "tiny_pairs", "tfds_split": "train"},
    "cached_tfds": {"tfds_name": "tiny_pairs", "tfds_split": "train[:80%]", "cache": True},
    "tfds_mixture": {
        "tfds_name": {
            "a": {"name": "tiny_pairs", "weight": 1},
            "b": {"name": "tiny_pairs", "weight": 2, "split": "test"},
        },
        "tfds_split": "train",
    },
}


def _fill(value, directory):
    if isinstance(value, dict):
        return {key: _fill(part, directory) for key, part in value.items()}
    return value.replace("{}", str(directory)) if isinstance(value, str) else value


def _decode(record):
    if isinstance(record, dict):
        return tf.cast(record["number"], tf.int32)
    return tf.strings.to_number(record, tf.int32)


def _build(kind, directory):
    params = cfg.DataConfig(
        **_fill(KINDS[kind], directory),
        tfds_data_dir=str(directory),
        is_training=True,
        global_batch_size=4,
        shuffle_buffer_size=6,
        cycle_length=2,
        seed=3,
    )
    is_text = kind.endswith("text")
    dataset_fn = tf.data.TextLineDataset if is_text else tf.data.TFRecordDataset
    return input_reader.InputReader(params, dataset_fn, _decode).read()


def _draw(iterator, num):
    return [batch.numpy().tolist() for batch in itertools.islice(iterator, num)]


def _position(iterator, inspection, count=0):
    return checkpoint_state.DataPosition(lambda: iterator, lambda: count, inspection=inspection)


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["cache-7", "mixture-7", "records-7", "text-7", "tfds-7"],
)
@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 1, 7, 11])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_run_goes_on_with_the_same_batches(directory, kind, position, caplog):
    uninterrupted = _draw(iter(_build(kind, directory)), position + NUM_BATCHES)
    dataset = _build(kind, directory)
    inspection = pipeline_inspection.inspect(dataset)
    assert inspection.is_exact
    assert inspection.is_saved or "tfds" in kind
    first = iter(dataset)
    _draw(first, position)
    saved = _position(first, inspection, position).serialize()

    second = iter(_build(kind, directory))
    _position(second, inspection).deserialize(saved)

    assert _draw(second, NUM_BATCHES) == uninterrupted[position:]
    assert "can't be stored" not in caplog.text
