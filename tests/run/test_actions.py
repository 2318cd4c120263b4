"""What a config asks to happen after loops and evaluations."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import checkpoints
from quintain.core import task_factory
from quintain.distribute import distribution
from quintain.optimization import ema
from quintain.run import actions, experiment_runner
from quintain.run.events import recovery


def build_average(model):
    optimizer = ema.ExponentialMovingAverage(keras.optimizers.SGD(0.1))
    optimizer.build(model.trainable_variables)
    optimizer.shadow_copy(model)
    return optimizer


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    model.trainable_variables[0].assign([[1.0], [1.0]])
    return model


def read_kernel(path):
    reader = tf.train.load_checkpoint(str(path))
    names = [name for name in reader.get_variable_to_shape_map() if "kernel" in name]
    return reader.get_tensor(names[0])


def test_averages_are_saved_as_the_weights_and_the_weights_come_back(tmp_path, model):
    optimizer = build_average(model)
    model.trainable_variables[0].assign([[3.0], [3.0]])
    action = actions.EMACheckpointing(
        str(tmp_path), optimizer, tf.train.Checkpoint(model=model), max_to_keep=1
    )

    for iterations in (5, 9):
        optimizer.iterations.assign(iterations)
        action({})

    found = checkpoints.list_checkpoints(str(tmp_path / "ema_checkpoints"), "average_weights")
    assert found == [str(tmp_path / "ema_checkpoints" / "average_weights-9")]
    assert tf.train.latest_checkpoint(str(tmp_path / "ema_checkpoints")) == found[0]
    np.testing.assert_array_equal(read_kernel(found[0]), [[1.0], [1.0]])
    np.testing.assert_array_equal(model.trainable_variables[0], [[3.0], [3.0]])
    assert not optimizer.is_swapped


def test_the_weights_come_back_when_the_averages_cannot_be_saved(tmp_path, model):
    optimizer = build_average(model)
    model.trainable_variables[0].assign([[3.0], [3.0]])
    (tmp_path / "ema_checkpoints").write_text("a file is in the way")
    action = actions.EMACheckpointing(
        str(tmp_path), optimizer, tf.train.Checkpoint(model=model), max_to_keep=1
    )

    with pytest.raises(errors.CheckpointError, match="can't be written"):
        action({})

    np.testing.assert_array_equal(model.trainable_variables[0], [[3.0], [3.0]])


def test_an_optimizer_without_averages_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Optimizer has to be instance of"):
        actions.EMACheckpointing(str(tmp_path), keras.optimizers.SGD(), tf.train.Checkpoint())


def test_pruning_is_refused_with_the_reason(tmp_path, model):
    with pytest.raises(errors.ConfigError, match="tensorflow_model_optimization"):
        actions.PruningAction(str(tmp_path), model, keras.optimizers.SGD())


def build_runner(params, model_dir, mode="train_and_eval"):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task)
    return experiment_runner.ExperimentRunner(strategy, task, mode, params, model_dir)


@pytest.mark.slow
def test_a_run_has_the_actions_that_its_config_asks_for(tmp_path, line_params):
    params = line_params(
        {"trainer": {"optimizer_config": {"ema": {"average_decay": 0.9}}, "train_steps": 10}}
    )
    runner = build_runner(params, str(tmp_path))

    kinds = [type(action) for action in runner.controller.train_actions]
    assert kinds == [actions.RecordTraining, recovery.LossRecovery]
    kinds = [type(action) for action in runner.controller.eval_actions]
    assert kinds == [actions.RecordEvaluation, actions.EMACheckpointing]

    runner.run()

    found = checkpoints.list_checkpoints(str(tmp_path / "ema_checkpoints"), "average_weights")
    assert [path.rpartition("-")[2] for path in found] == ["10"]


def test_a_negative_number_of_trials_switches_the_watch_off(tmp_path, line_params):
    params = line_params({"trainer": {"recovery_max_trials": -1}})
    trainer = build_runner(params, str(tmp_path)).trainer

    found = actions.get_train_actions(params, trainer, None, None)

    assert found == []


def test_a_task_that_asks_for_pruning_is_refused(tmp_path, line_params):
    params = line_params()
    trainer = build_runner(params, str(tmp_path)).trainer
    asking = types.SimpleNamespace(task=types.SimpleNamespace(pruning=True), trainer=params.trainer)

    with pytest.raises(errors.ConfigError, match=r"task\.pruning"):
        actions.get_train_actions(asking, trainer, str(tmp_path), None)


def test_a_conditional_recovery_of_the_plain_parts_works_in_a_controller(tmp_path, line_params):
    runner = build_runner(line_params({"trainer": {"train_steps": 20}}), str(tmp_path), "train")
    step = runner.trainer.global_step
    condition = actions.RecoveryCondition(step, loss_upper_bound=0.0, recovery_max_trials=1)
    action = orbit.actions.ConditionalAction(
        condition, actions.RecoveryAction(runner.checkpoint_manager)
    )
    runner.run()
    step.assign(25)

    action({"training_loss": 1.0})

    assert int(step.numpy()) == 20
    with pytest.raises(errors.TrainingDivergedError, match="It happened 2 times"):
        action({"training_loss": 1.0})
