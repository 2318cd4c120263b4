"""Faults of the reference in how runs begin, go on and end. Each has a test that it would fail.

The numbers are those of `training-library.md`, section 3.
"""

import dataclasses
import json
import math
import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import best_checkpoint, checkpoints
from quintain.core import base_task, exp_factory, task_factory, train_lib
from quintain.core import config_definitions as cfg
from quintain.distribute import distribution
from quintain.run import run_files, run_options


@dataclasses.dataclass
class SumConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=8)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=8)
    is_finite: bool = False
    loss_offset: float = 0.0
    is_score_missing: bool = False
    units: int = 1


class SumTask(base_task.Task):
    """Learns the sum of three numbers."""

    def build_model(self):
        model = keras.Sequential([keras.layers.Dense(self.task_config.units)])
        model.build((None, 3))
        return model

    def build_inputs(self, params, input_context=None):
        features = tf.random.stateless_normal([56, 3], seed=(1, 2))
        labels = tf.reduce_sum(features, axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(8)
        endless = params.is_training and not self.task_config.is_finite
        return dataset.repeat() if endless else dataset

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs)) + self.task_config.loss_offset

    def aggregate_logs(self, state=None, step_outputs=None):
        return True

    def reduce_aggregated_logs(self, aggregated_logs, global_step=None):
        value = math.nan if self.task_config.is_score_missing else 1.0
        return {"scores": {"all": value}}


@pytest.fixture(autouse=True)
def _task_is_registered():
    with task_factory.TASKS.temporarily(), exp_factory.EXPERIMENTS.temporarily():
        task_factory.register_task_cls(SumConfig)(SumTask)
        exp_factory.register_config_factory("test/sum")(build_params)
        yield


def build_params(task=None, **trainer):
    """Learns a sum."""
    return cfg.ExperimentConfig(
        task=SumConfig(**(task or {})),
        trainer=cfg.TrainerConfig(
            optimizer_config={
                "optimizer": {"type": "sgd"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.1}},
            },
            **{
                "train_steps": 8,
                "steps_per_loop": 4,
                "summary_interval": 4,
                "checkpoint_interval": 4,
                "validation_interval": 4,
                **trainer,
            },
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )


def run(params, mode, model_dir, **kwargs):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task)
    return train_lib.run_experiment(strategy, task, mode, params, str(model_dir), **kwargs)


class Collector(orbit.Reporter):
    def __init__(self):
        self.messages, self.loops, self.evaluations = [], [], []

    def on_message(self, text):
        self.messages.append(text)

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        self.loops.append(step)

    def on_eval_end(self, step, output, secs):
        self.evaluations.append(step)


def best_of(metric, comp="higher"):
    return {
        "best_checkpoint_export_subdir": "best",
        "best_checkpoint_eval_metric": metric,
        "best_checkpoint_metric_comp": comp,
    }


def test_defect_4_a_first_value_that_is_not_a_number_does_not_lock_the_best_checkpoint(tmp_path):
    exporter = best_checkpoint.BestCheckpointExporter(str(tmp_path), "score", "higher")
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))

    assert not exporter.maybe_export_checkpoint(checkpoint, {"score": math.nan}, 10)
    assert exporter.maybe_export_checkpoint(checkpoint, {"score": 0.5, "other": math.nan}, 20)

    text = (tmp_path / "info.json").read_text()
    info = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert info == {"score": 0.5, "other": None, "best_ckpt_global_step": 20}


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_4_a_nested_metric_works_and_the_name_of_the_checkpoint_is_the_step(tmp_path):
    _, logs = run(build_params(**best_of("scores|all")), "train_and_eval", tmp_path)

    assert logs["best_scores|all"] == 1.0
    assert (tmp_path / "best" / "best_ckpt-4.index").exists()


def test_defect_4_a_misspelt_metric_is_found_before_the_first_step(tmp_path):
    reporter = Collector()

    with pytest.raises(errors.ConfigError, match=r"Did you mean 'scores\|all'"):
        run(build_params(**best_of("scores|al")), "train_and_eval", tmp_path, reporter=reporter)

    assert reporter.loops == []


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_6_a_large_loss_is_not_a_blow_up_unless_a_bound_says_so(tmp_path):
    run(build_params({"loss_offset": 1e7}), "train", tmp_path)

    assert checkpoints.list_checkpoints(str(tmp_path))[-1].endswith("ckpt-8")


def test_defect_8_evaluation_without_a_checkpoint_is_an_error(tmp_path):
    with pytest.raises(errors.CheckpointError, match="holds no checkpoint to evaluate"):
        run(build_params(), "eval", tmp_path)


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_8_evaluation_returns_its_metrics(tmp_path):
    run(build_params(), "train", tmp_path)

    _, logs = run(build_params(), "eval", tmp_path)

    assert logs["validation_loss"] > 0


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_9_data_that_end_in_a_loop_end_the_training_in_order(tmp_path):
    reporter = Collector()

    _, logs = run(build_params({"is_finite": True}), "train_and_eval", tmp_path, reporter=reporter)

    assert checkpoints.list_checkpoints(str(tmp_path))[-1].endswith("ckpt-7")
    assert reporter.evaluations == [4, 7]
    assert "validation_loss" in logs


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_9_a_finished_run_gives_its_metrics(tmp_path):
    _, logs = run(build_params(), "train_and_eval", tmp_path)
    reporter = Collector()

    _, again = run(build_params(), "train_and_eval", tmp_path, reporter=reporter)

    assert "This run is finished" in reporter.messages[0]
    assert again["validation_loss"] == pytest.approx(float(logs["validation_loss"]))


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_9_a_finished_run_whose_last_evaluation_is_missing_is_evaluated(tmp_path):
    run(build_params(), "train", tmp_path)
    reporter = Collector()

    _, logs = run(build_params(), "train_and_eval", tmp_path, reporter=reporter)

    assert reporter.evaluations == [8]
    assert "validation_loss" in logs


def test_defect_9_no_steps_to_train_is_an_error(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"trainer\.train_steps: got 0"):
        run(build_params(train_steps=0), "train", tmp_path)

    assert os.listdir(tmp_path) == []


def test_defect_11_continuous_evaluation_evaluates_all_checkpoints_and_the_last(tmp_path):
    run(build_params(), "train", tmp_path)
    reporter = Collector()

    run(build_params(continuous_eval_timeout=0), "continuous_eval", tmp_path, reporter=reporter)

    assert reporter.evaluations == [4, 8]


def test_defect_17_other_settings_do_not_replace_params_yaml_silently(tmp_path, caplog):
    run_files.serialize_config(build_params(), str(tmp_path), experiment="test/sum")
    run_files.serialize_config(build_params(train_steps=9), str(tmp_path), experiment="test/sum")

    assert "trainer.train_steps: 8 -> 9" in caplog.text
    assert "train_steps: 8" in (tmp_path / "params.yaml.1").read_text()


def test_defect_17_a_checkpoint_of_another_model_is_refused(tmp_path):
    run(build_params(), "train", tmp_path)

    with pytest.raises(errors.CheckpointError, match="does not fit this model"):
        run(build_params({"units": 2}, train_steps=9), "train", tmp_path)


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_18_sigterm_saves_a_checkpoint_from_which_the_run_ends_the_same(tmp_path):
    class Terminate(Collector):
        def on_train_loop(self, *args, **kwargs):
            os.kill(os.getpid(), signal.SIGTERM)

    def train(name, reporter=None):
        return train_lib.train_from_config(
            build_params(),
            "train_and_eval",
            str(tmp_path / name),
            experiment="test/sum",
            options=run_options.RunOptions(reporter=reporter),
        )

    with pytest.raises(orbit.Interrupted, match="SIGTERM"):
        train("parts", Terminate())
    assert not checkpoints.list_checkpoints(str(tmp_path / "parts"))[-1].endswith("ckpt-8")
    resumed, straight = train("parts"), train("whole")

    assert resumed.is_complete
    first, second = (
        tf.train.load_checkpoint(str(tmp_path / name / "ckpt-8")) for name in ("parts", "whole")
    )
    names = [name for name in first.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    assert names
    assert all(np.array_equal(first.get_tensor(name), second.get_tensor(name)) for name in names)
    assert resumed.logs["validation_loss"] == straight.logs["validation_loss"]
