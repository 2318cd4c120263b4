"""Runs that end because their evaluations get no better."""

import json
import math

import pytest

from quintain import errors, orbit
from quintain.checkpoints import checkpoints
from quintain.core import task_factory
from quintain.distribute import distribution
from quintain.run import train_lib
from quintain.run.events import early_stopping
from quintain.settings import config_definitions as cfg


def decide(values, **config):
    stopping = early_stopping.EarlyStopping(cfg.EarlyStoppingConfig({"metric": "m", **config}))
    return stopping.find_reason({10 * (n + 1): {"m": value} for n, value in enumerate(values)})


@pytest.mark.parametrize(
    ("values", "config", "stops"),
    [
        ([3.0, 2.0, 1.0, 0.5], {"patience": 1}, False),
        ([1.0, 1.0], {"patience": 1}, True),
        ([1.0, 2.0, 2.0], {"patience": 3}, False),
        ([1.0, 2.0, 2.0, 1.5], {"patience": 3}, True),
        ([1.0, 2.0, 0.9, 1.0], {"patience": 2}, False),
        ([1.0, 2.0], {"patience": 1, "mode": "higher"}, False),
        ([2.0, 1.0], {"patience": 1, "mode": "higher"}, True),
        ([1.0, 0.95, 0.91], {"patience": 2, "min_delta": 0.1}, True),
        ([1.0, 0.95, 0.85], {"patience": 2, "min_delta": 0.1}, False),
        ([1.0, 2.0, 2.0, 1.0], {"patience": 2, "start_step": 30}, False),
        ([1.0, None, math.nan], {"patience": 2}, True),
        ([None, None], {"patience": 2}, True),
        ([None, 1.0], {"patience": 2}, False),
        ([], {"patience": 1}, False),
    ],
)
def test_training_ends_after_the_evaluations_without_improvement(values, config, stops):
    assert (decide(values, **config) is not None) == stops


def test_the_reason_names_metric_step_and_setting():
    assert decide([1.0, 2.0], patience=1) == (
        "Training ends early, at step 20: m was best at step 10 (1), and no better in the last 1 "
        "evaluations (trainer.early_stopping.patience)."
    )


class Collector(orbit.Reporter):
    def __init__(self):
        self.messages, self.steps = [], []

    def on_message(self, text):
        self.messages.append(text)

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        self.steps.append(step)


@pytest.fixture
def stopping_params(line_params):
    def build(**early_stopping):
        return line_params(
            {
                "trainer": {
                    "train_steps": 100,
                    "validation_interval": 10,
                    "early_stopping": {
                        # It gets no smaller by so much, so every evaluation is without improvement.
                        "metric": "validation_loss",
                        "min_delta": 1000.0,
                        "patience": 2,
                        **early_stopping,
                    },
                }
            }
        )

    return build


def run(params, model_dir, mode="train_and_eval", **kwargs):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task)
    return train_lib.run_experiment(strategy, task, mode, params, model_dir, **kwargs)


@pytest.mark.slow
def test_a_run_ends_early_with_a_message_and_a_checkpoint_and_stays_ended(
    tmp_path, stopping_params
):
    first, again, patient = Collector(), Collector(), Collector()

    _, logs = run(stopping_params(), str(tmp_path), reporter=first)
    _, same_logs = run(stopping_params(), str(tmp_path), reporter=again)

    assert first.steps[-1] == 30
    assert "Training ends early, at step 30" in first.messages[0]
    assert checkpoints.list_checkpoints(str(tmp_path))[-1].endswith("ckpt-30")
    assert again.steps == []
    assert "set trainer.early_stopping.patience higher" in again.messages[0]
    assert same_logs["validation_loss"] == pytest.approx(float(logs["validation_loss"]))

    run(stopping_params(patience=4), str(tmp_path), reporter=patient)

    assert patient.steps[0] == 35
    assert patient.steps[-1] == 50
    with open(tmp_path / "evaluations.jsonl") as file:
        assert [json.loads(line)["step"] for line in file] == [10, 20, 30, 40, 50]


@pytest.mark.long("A run ends early in every run of the tests")
@pytest.mark.slow
def test_the_result_of_a_run_says_that_it_was_stopped_early(tmp_path, stopping_params):
    result = train_lib.train_from_config(
        stopping_params(patience=1), "train_and_eval", str(tmp_path), experiment="test/line"
    )

    assert result.is_stopped_early
    assert not result.is_complete


@pytest.mark.long("A run ends early in every run of the tests")
@pytest.mark.slow
def test_a_run_that_keeps_nothing_ends_early_too(stopping_params):
    reporter = Collector()

    run(stopping_params(patience=1), None, reporter=reporter)

    assert reporter.steps[-1] == 20


def test_an_unknown_metric_is_an_error_before_the_first_step(tmp_path, stopping_params):
    reporter = Collector()

    with pytest.raises(
        errors.ConfigError,
        match=r"trainer\.early_stopping\.metric: got 'validation_los'.*Did you mean 'validation_l",
    ):
        run(stopping_params(metric="validation_los"), str(tmp_path), reporter=reporter)

    assert reporter.steps == []


def test_a_mode_without_evaluations_is_refused(tmp_path, stopping_params):
    with pytest.raises(errors.ConfigError, match=r"mode 'train' does not evaluate"):
        run(stopping_params(), str(tmp_path), "train")
