import math

import pytest

from quintain import errors
from quintain.checkpoints import auto_interval, checkpoints
from quintain.run import train_lib
from quintain.settings import config_definitions as cfg
from tests.line_task import line_params, line_task_is_registered

__all__ = ["line_params", "line_task_is_registered"]


def test_the_interval_is_youngs(monkeypatch):
    clock = iter([100.0, 110.0, 120.0])
    monkeypatch.setattr(auto_interval.time, "monotonic", lambda: next(clock))
    interval = auto_interval.AutoInterval(3600.0)

    assert interval.find_steps(50) == 1
    interval.note_cost(0.5)
    # 20 steps a second, a checkpoint every 60 seconds.
    assert interval.find_steps(250) == round(math.sqrt(2 * 0.5 * 3600) * 20)
    interval.note_cost(2.0)
    assert interval.find_steps(450) == 2400


@pytest.mark.parametrize(
    ("start_times", "secs"),
    [([], 3600), ([0.0], 3600), ([0.0, 300.0, 600.0], 1400), ([0.0, 1e6], 3600)],
)
def test_interruptions_are_an_hour_apart_or_as_those_of_the_run(start_times, secs):
    assert auto_interval.find_secs_between(start_times) == secs


def test_another_expectation_counts_as_one_interruption():
    assert auto_interval.find_secs_between([0.0, 300.0, 1e6], expected_secs=600.0) == 500


@pytest.mark.slow
def test_a_run_saves_as_often_as_its_checkpoints_cost(tmp_path, line_params, monkeypatch):
    monkeypatch.setattr(auto_interval.AutoInterval, "note_cost", lambda self, secs: None)
    trainer = {"checkpoint_interval": "auto", "steps_per_loop": 5, "max_to_keep": 0}
    params = line_params({"trainer": {**trainer, "train_steps": 20, "summary_interval": 5}})
    params.lock()

    train_lib.train_from_config(params, "train", str(tmp_path), experiment="test/line")

    # Without a known cost, after each loop.
    assert [int(one.rpartition("-")[2]) for one in checkpoints.list_checkpoints(str(tmp_path))] == [
        5, 10, 15, 20,
    ]  # fmt: skip


def test_where_steps_are_needed_the_message_says_so():
    config = cfg.TrainerConfig(checkpoint_interval="auto", steps_per_loop=7)

    assert "checkpoint_interval" not in config.follow_loop({"steps_per_loop"})
    with pytest.raises(errors.ConfigError, match="a run of two needs a number of steps"):
        config.get_checkpoint_steps("a run of two")
