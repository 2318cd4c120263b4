import numpy as np
import pytest
import tensorflow as tf

from quintain.orbit.utils import summary_manager


@pytest.fixture
def step():
    return tf.Variable(3, dtype=tf.int64)


def test_nested_outputs_go_to_sub_directories(tmp_path, step, read_scalars):
    manager = summary_manager.SummaryManager(str(tmp_path), global_step=step)

    manager.write_summaries({"loss": 1.5, "dev": {"loss": tf.constant(2.5), "deep": {"n": 4}}})
    manager.flush()

    assert read_scalars(tmp_path) == {"loss": [(3, 1.5)]}
    assert read_scalars(tmp_path / "dev") == {"loss": [(3, 2.5)]}
    assert read_scalars(tmp_path / "dev" / "deep") == {"n": [(3, 4.0)]}


def test_creates_no_file_before_there_is_something_to_write(tmp_path, step):
    manager = summary_manager.SummaryManager(str(tmp_path / "run"), global_step=step)

    manager.write_summaries({})
    manager.flush()

    assert not (tmp_path / "run").exists()


def test_writes_nothing_without_a_directory(step):
    manager = summary_manager.SummaryManager(None, global_step=step)

    manager.write_summaries({"loss": 1.0})
    manager.flush()
    with manager.summary_writer().as_default():
        assert not tf.summary.scalar("loss", 1.0, step=0)


def test_file_is_what_tensorboard_reads_from_the_scalar_summary_of_tensorflow(tmp_path, step):
    ours = summary_manager.SummaryManager(str(tmp_path / "ours"), global_step=step)
    theirs = summary_manager.SummaryManager(
        str(tmp_path / "theirs"), lambda *args, **kwargs: tf.summary.scalar(*args, **kwargs), step
    )

    ours.write_summaries({"loss": 0.25})
    theirs.write_summaries({"loss": 0.25})
    ours.flush()
    theirs.flush()

    assert _summaries(tmp_path / "ours") == _summaries(tmp_path / "theirs")


def test_custom_function_gets_every_value(step):
    seen = []
    manager = summary_manager.SummaryManager(
        "unused", lambda name, value, step: seen.append((name, value, int(step))), step
    )
    manager.summary_writer = lambda path="": tf.summary.create_noop_writer()

    manager.write_summaries({"text": "Guten Tag", "inner": {"n": 2}})

    assert seen == [("n", 2, 3), ("text", "Guten Tag", 3)]


@pytest.mark.parametrize("value", [np.float16(2.0), True, np.array([[7.0]]), tf.constant(3)])
def test_anything_that_is_one_number_is_written(tmp_path, step, read_scalars, value):
    manager = summary_manager.SummaryManager(str(tmp_path), global_step=step)

    manager.write_summaries({"value": value})
    manager.flush()

    assert read_scalars(tmp_path)["value"] == [(3, float(np.asarray(value).reshape(())))]


def test_bfloat16_is_a_number(tmp_path, step, read_scalars):
    manager = summary_manager.SummaryManager(str(tmp_path), global_step=step)

    manager.write_summaries({"value": tf.constant(1.5, tf.bfloat16)})
    manager.flush()

    assert read_scalars(tmp_path)["value"] == [(3, 1.5)]


def test_anything_else_is_left_out_with_one_warning(tmp_path, step, caplog, read_scalars):
    manager = summary_manager.SummaryManager(str(tmp_path), global_step=step)

    manager.write_summaries({"text": "Guten Tag", "loss": 1.0})
    manager.write_summaries({"text": "Guten Abend", "loss": 2.0})
    manager.flush()

    assert read_scalars(tmp_path) == {"loss": [(3, 1.0), (3, 2.0)]}
    assert [record.getMessage() for record in caplog.records] == [
        "Output 'text' is not written as a summary: got <U9 of shape (), expected one number."
    ]


def _summaries(directory):
    (path,) = directory.glob("events.*")
    events = [
        tf.compat.v1.Event.FromString(record)
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    return [
        (event.step, value.tag, value.metadata, tf.make_ndarray(value.tensor))
        for event in events
        for value in event.summary.value
    ]
