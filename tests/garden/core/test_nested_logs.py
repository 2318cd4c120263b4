"""Nested metrics and what is written of them."""

import json

import pytest
import tensorflow as tf
from tensorflow.core.util import event_pb2

from quintain.garden.core import nested_logs

NESTED = {"a": {"i": {"x": 5}}}


def test_leaf_is_found_by_its_keys():
    assert nested_logs.get_leaf_nested_dict(NESTED, ["a", "i", "x"]) == 5


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["a", "i"], "The value extracted with keys"),
        (["a", "i", "y"], "Path not exist while traversing"),
        (["a", "i", "x", "z"], "Path not exist while traversing"),
    ],
)
def test_keys_that_lead_to_no_leaf_are_errors(keys, message):
    with pytest.raises(KeyError, match=message):
        nested_logs.get_leaf_nested_dict(NESTED, keys)


def test_every_leaf_is_cast_in_a_copy():
    given = {"a": {"i": {"x": "123"}}, "b": 456.5}

    assert nested_logs.cast_leaf_nested_dict(given, int) == {"a": {"i": {"x": 123}}, "b": 456}
    assert given["b"] == 456.5


def test_json_file_holds_strings(tmp_path):
    nested_logs.write_json_summary(str(tmp_path), 7, {"loss": tf.constant(0.5), "name": "x"})

    assert json.loads((tmp_path / "metrics-7.json").read_text()) == {"loss": "0.5", "name": "x"}


def test_summaries_are_written_at_the_step(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))

    nested_logs.write_summary(writer, 7, {"loss": tf.constant(0.5), "score": 2})

    (path,) = tmp_path.iterdir()
    events = [
        event_pb2.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))
    ]
    written = {
        value.tag: (event.step, tf.make_ndarray(value.tensor).item())
        for event in events
        for value in event.summary.value
    }
    assert written == {"loss": (7, 0.5), "score": (7, 2.0)}
