"""The checkpoints with the best evaluations: which are kept, and what is known of them."""

import errno
import json
import math
import os
from unittest import mock

import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import best_checkpoint, checkpoints

DATA = ".data-00000-of-00001"


def make(directory, metric="score", comp="higher", **kwargs):
    return best_checkpoint.BestCheckpointExporter(str(directory), metric, comp, **kwargs)


def export(exporter, values, checkpoint=None):
    checkpoint = checkpoint or tf.train.Checkpoint(value=tf.Variable(0.0))
    return [
        exporter.maybe_export_checkpoint(checkpoint, {"score": value}, 10 * (index + 1))
        for index, value in enumerate(values)
    ]


def names(directory):
    found = checkpoints.list_checkpoints(str(directory), "best_ckpt")
    return [os.path.basename(path) for path in found]


def read_info(directory):
    text = (directory / "info.json").read_text()
    assert "NaN" not in text
    return json.loads(text)


def test_only_a_strictly_better_evaluation_replaces_the_best(tmp_path):
    exporter = make(tmp_path)

    assert export(exporter, [1.0, 1.0, 0.5, 2.0]) == [True, False, False, True]

    assert names(tmp_path) == ["best_ckpt-40"]
    assert read_info(tmp_path) == {"score": 2.0, "best_ckpt_global_step": 40}
    assert exporter.best_ckpt_path == str(tmp_path / "best_ckpt-40")


def test_numbers_are_written_without_arrays(tmp_path):
    logs = {"score": tf.constant([1.0]), "image": tf.zeros([2, 2]), "per_class": [1.0, 2.0]}

    make(tmp_path).maybe_export_checkpoint(tf.train.Checkpoint(), {**logs, "a": logs}, 5)

    assert read_info(tmp_path) == {"score": 1.0, "a": {"score": 1.0}, "best_ckpt_global_step": 5}


def test_lower_is_better_if_the_config_says_so(tmp_path):
    assert export(make(tmp_path, comp="lower"), [1.0, 2.0, 0.5]) == [True, False, True]


def test_a_value_that_is_not_a_number_never_wins_and_never_blocks(tmp_path):
    values = [math.nan, 1.0, math.nan, math.inf, 2.0]

    assert export(make(tmp_path), values) == [False, True, False, False, True]


def test_other_metrics_that_are_not_numbers_are_written_as_null(tmp_path):
    checkpoint = tf.train.Checkpoint(value=tf.Variable(0.0))

    make(tmp_path).maybe_export_checkpoint(checkpoint, {"score": 1.0, "other": math.nan}, 5)

    assert read_info(tmp_path)["other"] is None


def test_the_best_few_are_kept_across_restarts_and_ties_go_to_the_earlier(tmp_path):
    values = [3.0, 1.0, 2.0, 2.0, 5.0]

    done = []
    for index, value in enumerate(values):
        checkpoint = tf.train.Checkpoint(value=tf.Variable(value))
        exporter = make(tmp_path, max_to_keep=2)
        done.append(
            exporter.maybe_export_checkpoint(checkpoint, {"score": value}, 10 * (index + 1))
        )

    assert done == [True, True, True, False, True]
    assert names(tmp_path) == ["best_ckpt-10", "best_ckpt-50"]
    assert make(tmp_path, max_to_keep=2).kept_values == {50: 5.0, 10: 3.0}
    assert read_info(tmp_path)["best_ckpt_global_step"] == 50
    reader = tf.train.load_checkpoint(str(tmp_path / "best_ckpt-10"))
    assert reader.get_tensor("value/.ATTRIBUTES/VARIABLE_VALUE") == 3.0


def test_a_second_best_does_not_change_the_record_of_the_best(tmp_path):
    export(make(tmp_path, max_to_keep=2), [2.0, 1.0])

    assert read_info(tmp_path)["best_ckpt_global_step"] == 10
    assert names(tmp_path) == ["best_ckpt-10", "best_ckpt-20"]


def test_a_nested_metric_and_another_checkpoint_object(tmp_path):
    exporter = make(tmp_path, "outer|inner")
    first = tf.train.Checkpoint(v=tf.Variable(1.0))
    second = tf.train.Checkpoint(v=tf.Variable(3.0))

    assert exporter.maybe_export_checkpoint(first, {"outer": {"inner": 5.0}}, 100)
    assert exporter.maybe_export_checkpoint(second, {"outer": {"inner": 6.0}}, 200)
    assert not exporter.maybe_export_checkpoint(second, {"outer": {"inner": 1.0}}, 300)

    restored = tf.Variable(0.0)
    tf.train.Checkpoint(v=restored).restore(exporter.best_ckpt_path).expect_partial()
    assert restored.numpy() == 3.0


def test_an_evaluation_that_is_done_again_is_not_saved_again(tmp_path):
    exporter = make(tmp_path)
    checkpoint = tf.train.Checkpoint(value=tf.Variable(0.0))

    assert exporter.maybe_export_checkpoint(checkpoint, {"score": 1.0}, 10)
    assert not exporter.maybe_export_checkpoint(checkpoint, {"score": 1.0}, 10)


def test_a_best_checkpoint_of_an_older_version_counts(tmp_path):
    export(make(tmp_path), [2.0])
    os.remove(tmp_path / "kept.json")

    assert export(make(tmp_path), [0.0, 1.0, 3.0]) == [False, False, True]


@pytest.fixture
def shared(tmp_path):
    """A step, the manager of the newest checkpoints, and an exporter that shares their files."""
    step = tf.Variable(10, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(value=step)
    newest = checkpoints.CheckpointManager(checkpoint, str(tmp_path), 1, step_counter=step)
    exporter = make(tmp_path / "best")
    exporter.share_files(newest)
    return step, newest, exporter


def read_values(*paths):
    return [int(tf.train.load_variable(path, "value/.ATTRIBUTES/VARIABLE_VALUE")) for path in paths]


def test_the_best_of_the_newest_step_has_its_files_and_outlives_it(tmp_path, shared):
    step, newest, exporter = shared
    path = newest.save()

    assert exporter.maybe_export_checkpoint(newest.checkpoint, {"score": 1.0}, 10)

    best = exporter.best_ckpt_path
    assert all(os.path.samefile(path + end, best + end) for end in (".index", DATA))
    step.assign(20)
    newest.save()
    newest.sync()
    assert not os.path.exists(path + DATA)
    assert read_values(best, newest.latest_checkpoint) == [10, 20]
    exporter.maybe_export_checkpoint(newest.checkpoint, {"score": 2.0}, 20)
    assert os.path.samefile(tmp_path / f"ckpt-20{DATA}", exporter.best_ckpt_path + DATA)
    assert names(tmp_path / "best") == ["best_ckpt-20"]
    assert tf.train.latest_checkpoint(str(tmp_path / "best")) == exporter.best_ckpt_path
    assert not list(tmp_path.rglob("*.incomplete"))


@pytest.mark.parametrize("case", ["later step", "other objects", "restored", "no links"])
def test_the_best_is_written_where_the_newest_is_not_of_the_same_state(
    tmp_path, shared, monkeypatch, case
):
    step, newest, exporter = shared
    path, checkpoint = newest.save(), newest.checkpoint
    newest.sync()
    match case:
        case "later step":
            step.assign(20)
        case "other objects":
            checkpoint = tf.train.Checkpoint(value=tf.Variable(20, dtype=tf.int64))
        case "restored":
            newest = checkpoints.CheckpointManager(checkpoint, str(tmp_path), step_counter=step)
            exporter.share_files(newest)
            newest.restore_or_initialize()
        case "no links":
            monkeypatch.setattr(os, "link", mock.Mock(side_effect=OSError(errno.EPERM, "")))

    exporter.maybe_export_checkpoint(checkpoint, {"score": 1.0}, int(step))

    best = exporter.best_ckpt_path
    assert not os.path.samefile(path + DATA, best + DATA)
    assert read_values(best) == [20 if case in ("later step", "other objects") else 10]


def test_info_can_be_written_alone(tmp_path):
    make(tmp_path, "a|b").export_best_eval_metric({"a": {"b": 5.0}}, 100)

    assert read_info(tmp_path) == {"a": {"b": 5.0}, "best_ckpt_global_step": 100}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"comp": "bigger"}, "expected 'higher' or 'lower'"),
        ({"max_to_keep": 0}, "expected at least 1"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, arguments, message):
    with pytest.raises(errors.ConfigError, match=message):
        make(tmp_path, **arguments)


@pytest.mark.parametrize(
    ("logs", "message"),
    [
        ({"scores": 1.0}, r"gives: scores\. Did you mean 'scores'\?"),
        ({"score": [1.0, 2.0]}, "not a single number"),
        ({"score": {"a": 1.0}}, "not a single number"),
    ],
)
def test_a_metric_that_is_not_there_or_no_number_is_an_error(tmp_path, logs, message):
    with pytest.raises(errors.ConfigError, match=message):
        make(tmp_path).maybe_export_checkpoint(tf.train.Checkpoint(), logs, 1)


@pytest.mark.parametrize("name", ["info.json", "kept.json"])
@pytest.mark.parametrize("content", [b"", b'{"score": 1', b"\0\0", b"[]", b'{"a": "b"}', b'"\xc3'])
def test_a_damaged_record_is_named_before_the_run_relies_on_it(tmp_path, name, content):
    exporter = make(tmp_path)
    export(exporter, [1.0])
    (tmp_path / name).write_bytes(content)

    with pytest.raises(errors.DamagedFileError, match=rf"{name}: can't be understood"):
        make(tmp_path).check_record()

    assert names(tmp_path) == ["best_ckpt-10"]
