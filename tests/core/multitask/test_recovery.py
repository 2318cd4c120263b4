"""Recovery from a blow-up of the loss when several tasks are trained."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.checkpoints import recovery_state
from quintain.run import multitask_runner, run_options


class PoisonOnce:
    """Spoils the weights at step 15, after the loss of the loop was looked at."""

    def __init__(self):
        self.trainer, self.is_done = None, False

    def __call__(self, output):
        if int(self.trainer.global_step.numpy()) == 15 and not self.is_done:
            self.is_done = True
            variable = self.trainer.model.trainable_variables[0]
            variable.assign(variable * np.nan)


def run(params, model_dir, task, train_actions=()):
    keras.utils.set_random_seed(0)
    runner = multitask_runner.MultiTaskRunner(
        tf.distribute.OneDeviceStrategy("/cpu:0"),
        task,
        "train",
        params,
        str(model_dir),
        run_options.RunOptions(train_actions=train_actions),
    )
    for action in train_actions:
        action.trainer = runner.trainer
    runner.run()
    return runner.trainer


def read_weights(model_dir):
    reader = tf.train.load_checkpoint(os.path.join(model_dir, "ckpt-30"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if name.endswith("VARIABLE_VALUE")}


@pytest.mark.long("Further cases of a test of which some run every time", but=["joint"])
@pytest.mark.slow
@pytest.mark.parametrize("trainer_type", ["interleaving", "joint"])
def test_a_run_that_went_back_ends_the_same_to_the_bit(
    tmp_path, experiment, two_tasks, trainer_type
):
    params = experiment(trainer_type, recovery_max_trials=1, recovery_skip_batches=False)

    run(params, tmp_path / "whole", two_tasks())
    run(params, tmp_path / "recovered", two_tasks(), [PoisonOnce()])

    assert recovery_state.load(str(tmp_path / "recovered")).num_trials == 1
    whole, recovered = read_weights(tmp_path / "whole"), read_weights(tmp_path / "recovered")
    assert whole.keys() == recovered.keys()
    assert all(np.array_equal(whole[name], recovered[name]) for name in whole)


@pytest.mark.long("Further cases of a test of which some run every time", but=["interleaving"])
@pytest.mark.slow
@pytest.mark.parametrize(("trainer_type", "num_batches"), [("interleaving", 5), ("joint", 10)])
def test_batches_of_every_task_are_left_out(
    tmp_path, experiment, two_tasks, trainer_type, num_batches
):
    params = experiment(trainer_type, recovery_max_trials=1)

    trainer = run(params, tmp_path, two_tasks(), [PoisonOnce()])

    state = trainer.loop_record.state
    left_out = {name: state.count_skipped(name) for name in ("plus", "minus")}
    assert sum(left_out.values()) == num_batches
    assert left_out == dict(state.trials[0].skipped_batches)
