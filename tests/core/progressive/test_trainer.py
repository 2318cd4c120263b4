import os

import keras
import pytest
import tensorflow as tf

from quintain import errors, optimization, orbit
from quintain.checkpoints import checkpoints
from quintain.core import base_task
from quintain.core.progressive import configs, policies, trainer
from quintain.settings import config_definitions as cfg


class TwoStages(policies.ProgressivePolicy, base_task.Task):
    """A task and policy: two steps by SGD on batches of 2, then Adam on batches of 1."""

    def __init__(self, changes_dataset=True):
        self._changes_dataset = changes_dataset
        self._only_dataset = None
        base_task.Task.__init__(self, cfg.TaskConfig())
        policies.ProgressivePolicy.__init__(self)

    def num_stages(self):
        return 2

    def num_steps(self, stage_id):
        return 2 if stage_id == 0 else 4

    def get_model(self, stage_id, old_model=None):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        if old_model is not None:
            model.set_weights(old_model.get_weights())
        return model

    def get_optimizer(self, stage_id):
        return optimization.SGD(0.1) if stage_id == 0 else optimization.Adam(0.1)

    def get_train_dataset(self, stage_id):
        if self._changes_dataset or self._only_dataset is None:
            self._only_dataset = self._build_batches(stage_id)
        return self._only_dataset

    def get_eval_dataset(self, stage_id):
        return self._build_batches(stage_id).take(3)

    def build_inputs(self, params, input_context=None):
        raise AssertionError("The policy builds the data.")

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))

    def _build_batches(self, stage_id):
        size = 2 if stage_id == 0 else 1
        return tf.data.Dataset.from_tensors((tf.ones([size, 2]), tf.ones([size, 1]))).repeat()


def build_trainer(directory="", policy=None, **config):
    params = cfg.ExperimentConfig(
        trainer=configs.ProgressiveTrainerConfig(
            export_checkpoint_interval=1, export_only_final_stage_ckpt=False, **config
        )
    )
    return trainer.ProgressiveTrainer(params, policy or TwoStages(), ckpt_dir=str(directory))


def train(one, num_steps):
    return one.train(tf.constant(num_steps, tf.int32))


def test_a_loop_over_the_end_of_a_stage_is_done_in_two_parts():
    one = build_trainer()
    first_model = one.model

    logs = train(one, 5)

    assert one.policy.is_last_stage
    assert one.policy.cur_stage_id == 1
    assert logs["stage"] == 1
    assert {"training_loss", "learning_rate"} <= set(logs)
    assert one.model is not first_model
    assert isinstance(one.optimizer, optimization.Adam)
    assert int(one.optimizer.iterations) == 3
    assert int(one.global_step) == 5


@pytest.mark.slow
def test_a_checkpoint_of_a_later_stage_builds_that_stage_before_it_is_read(tmp_path):
    one = build_trainer()
    train(one, 4)
    path = one.checkpoint.save(str(tmp_path / "ckpt"))
    other = build_trainer()
    assert not other.policy.is_last_stage

    other.checkpoint.restore(path)

    assert other.policy.is_last_stage
    assert isinstance(other.optimizer, optimization.Adam)
    assert int(other.optimizer.iterations) == 2
    assert other.model.get_weights()[0].tolist() == one.model.get_weights()[0].tolist()


@pytest.mark.slow
def test_going_back_to_an_earlier_stage_works_as_well(tmp_path):
    one = build_trainer()
    train(one, 1)
    path = one.checkpoint.save(str(tmp_path / "ckpt"))
    weights = one.model.get_weights()[0].tolist()
    train(one, 3)

    one.checkpoint.restore(path)

    assert one.policy.cur_stage_id == 0
    assert one.model.get_weights()[0].tolist() == weights
    train(one, 1)
    assert one.policy.cur_stage_id == 1


def test_training_data_is_that_of_the_stage_and_cannot_be_assigned():
    one = build_trainer()
    assert next(iter(one.train_dataset))[0].shape[0] == 2

    train(one, 2)

    assert next(iter(one.train_dataset))[0].shape[0] == 1
    with pytest.raises(SyntaxError, match="can't be assigned"):
        one.train_dataset = None
    with pytest.raises(SyntaxError, match="can't be assigned"):
        one.eval_dataset = None


@pytest.mark.parametrize("changes_dataset", [False, True])
def test_data_that_stays_goes_on_where_it_is(changes_dataset):
    one = build_trainer(policy=TwoStages(changes_dataset))
    train(one, 1)
    iterator = one.train_iterator

    train(one, 1)

    assert (one.train_iterator is iterator) == (not changes_dataset)


@pytest.mark.slow
def test_evaluation_follows_the_stage():
    one = build_trainer()
    before = one.evaluate(tf.constant(-1))
    train(one, 3)

    after = one.evaluate(tf.constant(-1))

    assert float(after["validation_loss"]) < float(before["validation_loss"])


@pytest.mark.slow
def test_small_models_are_exported_too_if_asked_for(tmp_path):
    one = build_trainer(tmp_path, train_steps=4, max_to_keep=9)

    for _ in range(4):
        train(one, 1)

    found = checkpoints.list_checkpoints(os.path.join(tmp_path, "exported_ckpts"))
    assert [os.path.basename(path) for path in found] == ["ckpt-1", "ckpt-2", "ckpt-3", "ckpt-4"]


def test_nothing_is_exported_without_a_directory_or_the_wish(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    train(build_trainer(), 1)
    train(build_trainer(tmp_path, export_checkpoint=False), 1)

    assert not list(tmp_path.iterdir())


def test_a_plain_trainer_config_is_refused():
    with pytest.raises(errors.ConfigError, match="expected a ProgressiveTrainerConfig"):
        trainer.ProgressiveTrainer(cfg.ExperimentConfig(), TwoStages())


def test_a_policy_that_is_no_task_has_to_name_one():
    class NoTask(TwoStages):
        task = policies.ProgressivePolicy.task

    class Alone(policies.ProgressivePolicy):
        num_stages = TwoStages.num_stages
        num_steps = TwoStages.num_steps
        get_model = TwoStages.get_model
        get_optimizer = TwoStages.get_optimizer
        get_train_dataset = TwoStages.get_train_dataset
        get_eval_dataset = TwoStages.get_eval_dataset

    assert NoTask().task.name
    with pytest.raises(errors.ConfigError, match="is no Task"):
        _ = Alone().task


def test_steps_belong_to_the_stage_they_lead_to():
    policy = TwoStages()

    assert [policy.compute_stage_id(step) for step in range(9)] == [0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert [policy.count_steps_left(step) for step in range(3)] == [2, 1, None]
    assert policy.is_stage_advancing(2)
    assert not policy.is_stage_advancing(1)


def test_a_checkpoint_without_a_step_is_refused(tmp_path):
    path = tf.train.Checkpoint(x=tf.Variable(1)).write(str(tmp_path / "other"))

    with pytest.raises(errors.CheckpointError, match="does not tell its step"):
        build_trainer().checkpoint.restore(path)


def test_the_controller_of_a_users_own_program_drives_it():
    one = build_trainer()
    controller = orbit.Controller(trainer=one, global_step=one.global_step, steps_per_loop=3)

    controller.train(steps=6)

    assert int(one.global_step) == 6
    assert one.policy.is_last_stage


class CompiledStages(TwoStages):
    """Measures the same by a metric of its own and by one that its models are compiled with."""

    def get_model(self, stage_id, old_model=None):
        model = super().get_model(stage_id, old_model)
        model.compile(metrics=["mae"])
        return model

    def get_eval_dataset(self, stage_id):
        return super().get_eval_dataset(stage_id).map(lambda x, y: (x, y + 5.0))

    def build_metrics(self, training=True):
        return [keras.metrics.MeanAbsoluteError(name="own")]


@pytest.mark.slow
def test_what_evaluations_measure_is_no_part_of_the_loops_of_any_stage():
    one = build_trainer(policy=CompiledStages())
    one.evaluate(tf.constant(2))

    for num_steps in (1, 2, 1):
        logs = train(one, num_steps)
        one.evaluate(tf.constant(2))

        assert float(logs["mae"]) == pytest.approx(float(logs["own"]), rel=1e-6)
    assert one.policy.cur_stage_id == 1
