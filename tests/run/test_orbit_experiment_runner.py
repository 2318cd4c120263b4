import pytest
import tensorflow as tf

from quintain.core import task_factory
from quintain.run import train_lib


def build(cls, params, model_dir, **kwargs):
    return cls(
        distribution_strategy=tf.distribute.OneDeviceStrategy("/cpu:0"),
        task=task_factory.get_task(params.task),
        mode="train_and_eval",
        params=params,
        model_dir=str(model_dir),
        **kwargs,
    )


def test_it_runs_as_run_experiment_does(tmp_path, line_params):
    params = line_params({"trainer": {"train_steps": 10}})

    runner = build(train_lib.OrbitExperimentRunner, params, tmp_path, run_post_eval=True)
    model, logs = runner.run()

    assert model is runner.trainer.model
    assert "validation_loss" in logs
    assert runner.checkpoint_manager.latest_checkpoint.endswith("ckpt-10")


def test_a_subclass_puts_parts_of_its_own_in_place(tmp_path, line_params):
    class Mine(train_lib.OrbitExperimentRunner):
        def _build_trainer(self, task, train, evaluate):
            calls.append((train, evaluate))
            return super()._build_trainer(task, train, evaluate)

        def _maybe_build_checkpoint_manager(self):
            return tf.train.CheckpointManager(
                self.trainer.checkpoint,
                self.model_dir,
                max_to_keep=2,
                checkpoint_name="mine",
                step_counter=self.trainer.global_step,
                checkpoint_interval=5,
            )

    calls = []
    params = line_params({"trainer": {"train_steps": 10}})

    build(Mine, params, tmp_path).run()

    assert calls == [(True, True)]
    assert (tmp_path / "mine-10.index").exists()


def test_without_a_strategy_it_takes_the_one_in_force(tmp_path, line_params):
    params = line_params({"trainer": {"train_steps": 5}})

    runner = train_lib.OrbitExperimentRunner(
        None, task_factory.get_task(params.task), "train", params, str(tmp_path)
    )

    assert runner.strategy is tf.distribute.get_strategy()


@pytest.mark.slow
def test_a_run_with_a_manager_of_tensorflow_recovers(tmp_path, line_params):
    class WithTensorFlowManager(train_lib.OrbitExperimentRunner):
        def _maybe_build_checkpoint_manager(self):
            return tf.train.CheckpointManager(
                self.trainer.checkpoint,
                self.model_dir,
                max_to_keep=None,
                step_counter=self.trainer.global_step,
                checkpoint_interval=5,
            )

    class PoisonOnce:
        def __call__(self, output):
            variable = runner.trainer.model.trainable_variables[0]
            if int(runner.trainer.global_step) == 10 and not done:
                done.append(True)
                variable.assign(variable * float("nan"))

    done = []
    params = line_params({"trainer": {"train_steps": 20, "recovery_max_trials": 1}})
    runner = build(WithTensorFlowManager, params, tmp_path, train_actions=[PoisonOnce()])

    _, logs = runner.run()

    assert runner.trainer.loop_record.state.num_trials == 1
    assert logs["validation_loss"] > 0
