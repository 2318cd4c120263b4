import json

import pytest

from quintain.core import task_factory
from quintain.distribute import distribution
from quintain.run import history, train_lib


def test_a_step_that_is_trained_again_replaces_its_line_and_later_ones(tmp_path):
    log = history.TrainingLog(str(tmp_path))
    for step in (5, 10, 15, 10):
        log.record(step, {"loss": 1.0 / step})

    assert [entry["step"] for entry in log.read()] == [5, 10]


def test_another_process_goes_on_with_the_file(tmp_path):
    history.TrainingLog(str(tmp_path)).record(5, {"loss": 1.0})
    history.TrainingLog(str(tmp_path)).record(10, {"loss": 2.0})

    entries = history.TrainingLog(str(tmp_path)).read()
    assert [entry["metrics"] for entry in entries] == [{"loss": 1.0}, {"loss": 2.0}]


def test_half_a_line_that_a_kill_left_is_dropped(tmp_path):
    log = history.TrainingLog(str(tmp_path))
    log.record(5, {"loss": 1.0})
    path = tmp_path / "training.jsonl"
    path.write_text(path.read_text() + '{"step": 10, "me')

    history.TrainingLog(str(tmp_path)).record(10, {"loss": 2.0})

    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [5, 10]


def test_a_complete_line_without_its_line_break_is_dropped(tmp_path):
    path = tmp_path / "training.jsonl"
    path.write_text('{"step": 5, "metrics": {}}')

    history.TrainingLog(str(tmp_path)).record(10, {"loss": 2.0})

    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [10]


def test_numbers_that_json_lacks_become_null(tmp_path):
    log = history.TrainingLog(str(tmp_path))
    log.record(5, {"loss": float("nan"), "task": {"loss": float("inf")}})

    assert log.read()[0]["metrics"] == {"loss": None, "task": {"loss": None}}


def run(params, model_dir):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task)
    train_lib.run_experiment(strategy, task, "train", params, str(model_dir))


@pytest.mark.slow
def test_a_run_that_goes_on_from_an_earlier_checkpoint_has_each_step_once(tmp_path, line_params):
    run(line_params({"trainer": {"train_steps": 20}}), tmp_path)
    for path in tmp_path.glob("ckpt-20*"):
        path.unlink()
    run(line_params({"trainer": {"train_steps": 30}}), tmp_path)

    entries = history.TrainingLog(str(tmp_path)).read()
    assert [entry["step"] for entry in entries] == [5, 10, 15, 20, 25, 30]
    assert all(entry["metrics"]["training_loss"] > 0 for entry in entries)
    times = [entry["time_secs"] for entry in entries]
    assert times == sorted(times)
