import json

import pytest
import tensorflow as tf

from quintain.orbit import actions


def test_only_a_strictly_better_value_is_a_new_best():
    best = actions.NewBestMetric("accuracy")

    results = [best({"accuracy": value}) for value in (0.5, 0.5, 0.4, 0.6)]

    assert results == [True, False, False, True]
    assert best.best_value == 0.6


def test_lower_may_be_better():
    best = actions.NewBestMetric("loss", higher_is_better=False)

    assert [best({"loss": value}) for value in (2.0, 3.0, 1.0)] == [True, False, True]


def test_testing_does_not_commit():
    best = actions.NewBestMetric("accuracy")

    assert best.test({"accuracy": 0.5})
    assert best.test({"accuracy": 0.5})
    assert best.commit({"accuracy": 0.5})
    assert not best.test({"accuracy": 0.5})


def test_metric_may_be_computed_from_tensors():
    best = actions.NewBestMetric(lambda output: output["a"] + output["b"])

    best({"a": tf.constant(1.0), "b": tf.constant(2.0)})

    assert best.best_value == 3.0


def test_nan_is_no_best_and_does_not_lock_out_later_values():
    best = actions.NewBestMetric("loss", higher_is_better=False)

    assert [best({"loss": value}) for value in (float("nan"), 1.0)] == [False, True]


def test_best_value_outlives_the_process(tmp_path):
    filename = str(tmp_path / "deep" / "best.json")
    actions.NewBestMetric("accuracy", filename=filename)({"accuracy": 0.5})

    restarted = actions.NewBestMetric("accuracy", filename=filename)

    assert restarted.best_value == 0.5
    assert not restarted({"accuracy": 0.5})


def test_reading_process_does_not_write(tmp_path):
    filename = tmp_path / "best.json"
    reader = actions.NewBestMetric("accuracy", filename=str(filename), write_metric=False)

    assert reader({"accuracy": 0.5})
    assert not filename.exists()


def test_missing_metric_names_those_that_there_are():
    best = actions.NewBestMetric("acuracy")

    with pytest.raises(KeyError, match=r"'acuracy' in the output; it has \['accuracy', 'loss'\]"):
        best({"loss": 1.0, "accuracy": 0.5})


def test_failed_write_leaves_the_old_value_in_the_file(tmp_path):
    filename = tmp_path / "value.json"
    value = actions.JSONPersistedValue({"best": 1}, str(filename))

    with pytest.raises(TypeError, match="not JSON serializable"):
        value.write({"best": object()})

    assert json.loads(filename.read_text()) == {"best": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]
    assert value.read() == {"best": 1}


def test_value_without_file_is_kept_in_memory():
    value = actions.JSONPersistedValue(1, None)

    value.write(2)

    assert value.read() == 2


def test_empty_file_counts_as_none(tmp_path):
    filename = tmp_path / "value.json"
    filename.touch()

    assert actions.JSONPersistedValue(7, str(filename)).read() == 7
