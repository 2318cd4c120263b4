import json
import os

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.core import task_factory
from quintain.core.multitask import configs, multitask
from quintain.distribute import distribution
from quintain.garden.core import multitask_test_utils as test_utils
from quintain.garden.core import multitask_train_lib
from quintain.run import multitask_runner, train_lib


def run(params, mode, model_dir, *, two_tasks=None, **kwargs):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        routines = params.task.task_routines
        tasks = two_tasks(
            task_weights={routine.name: routine.task_weight for routine in routines},
            task_eval_steps={routine.name: routine.eval_steps for routine in routines},
        )
    return multitask_train_lib.run_experiment(
        distribution_strategy=strategy,
        task=tasks,
        model=None,
        mode=mode,
        params=params,
        model_dir=str(model_dir),
        **kwargs,
    )


def read_weights(model_dir, step):
    reader = tf.train.load_checkpoint(os.path.join(model_dir, f"ckpt-{step}"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE")
    }


class Collector(orbit.Reporter):
    def __init__(self):
        self.loops, self.evaluations = [], []

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        self.loops.append((step, dict(output)))

    def on_eval_end(self, step, output, secs):
        self.evaluations.append((step, dict(output)))


@pytest.mark.long("Further cases of a test of which some run every time", but=["interleaving"])
@pytest.mark.slow
@pytest.mark.parametrize("trainer_type", ["interleaving", "joint"])
def test_an_interrupted_run_ends_bit_identical_to_one_that_was_not(
    tmp_path, experiment, two_tasks, trainer_type
):
    params = experiment(trainer_type)
    run(params, "train", tmp_path / "whole", two_tasks=two_tasks)

    interruption = orbit.Interruption()

    def stop(output):
        interruption.request("test")

    params.trainer.steps_per_loop = 7
    params.trainer.summary_interval = 7
    with pytest.raises(orbit.Interrupted):
        run(
            params,
            "train",
            tmp_path / "parts",
            two_tasks=two_tasks,
            train_actions=[stop],
            interruption=interruption,
        )
    params = experiment(trainer_type)
    run(params, "train", tmp_path / "parts", two_tasks=two_tasks)

    whole, parts = (read_weights(tmp_path / name, 30) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(value, parts[name], err_msg=name)


@pytest.mark.long("Further cases of a test of which some run every time", but=["joint"])
@pytest.mark.slow
@pytest.mark.parametrize("trainer_type", ["interleaving", "joint"])
def test_it_learns_both_tasks_and_reports_each_by_its_name(
    tmp_path, experiment, two_tasks, trainer_type
):
    params = experiment(
        trainer_type,
        best_checkpoint_export_subdir="best",
        best_checkpoint_eval_metric="minus|absolute_error",
        best_checkpoint_metric_comp="lower",
    )
    reporter = Collector()

    _, logs = run(
        params,
        "train_and_eval",
        tmp_path,
        two_tasks=two_tasks,
        reporter=reporter,
        run_post_eval=True,
    )

    assert [step for step, _ in reporter.evaluations[:2]] == [15, 30]
    first, last = reporter.evaluations[0][1], reporter.evaluations[1][1]
    for name in ("plus", "minus"):
        assert set(last[name]) == {"absolute_error", "validation_loss"}
        assert last[name]["validation_loss"] < first[name]["validation_loss"]
    assert logs["best_minus|absolute_error"] == last["minus"]["absolute_error"]
    with open(tmp_path / "evaluations.jsonl") as file:
        records = [json.loads(line) for line in file]
    assert records[1]["metrics"]["minus"]["absolute_error"] == pytest.approx(
        float(last["minus"]["absolute_error"])
    )
    train_logs = reporter.loops[-1][1]
    assert {"plus", "minus", "training_loss", "learning_rate"} <= set(train_logs)
    assert ("total_loss" in train_logs) == (trainer_type == "joint")
    assert (tmp_path / "best" / "best_ckpt-30.index").exists()


@pytest.mark.slow
def test_only_the_tasks_own_number_of_batches_is_evaluated(tmp_path, experiment, two_tasks):
    params = experiment()
    counts = []

    class Count(orbit.Reporter):
        def on_eval_step(self, done, num_steps):
            counts.append(done)

    run(params, "train_and_post_eval", tmp_path, two_tasks=two_tasks, reporter=Count())

    # 29 examples in batches of 8 for one task, 2 batches for the other.
    assert counts == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_a_registered_experiment_runs_from_its_config_alone(tmp_path, experiment):
    params = experiment("joint", validation_steps=1)

    result = train_lib.train_from_config(
        params, "train_and_eval", str(tmp_path), experiment="test/signs"
    )
    again = train_lib.train_from_config(params, "eval", str(tmp_path), experiment="test/signs")

    assert result.is_complete
    assert again.logs["plus"]["validation_loss"] == result.logs["plus"]["validation_loss"]


@pytest.mark.slow
def test_one_task_trains_and_several_are_evaluated(tmp_path, experiment, sign_config):
    params = configs.MultiEvalExperimentConfig(
        task=sign_config(),
        eval_tasks=experiment().task.task_routines,
        trainer={
            name: value
            for name, value in experiment().trainer.as_dict().items()
            if name not in ("trainer_type", "task_sampler")
        },
        runtime=experiment().runtime,
    )

    result = train_lib.train_from_config(params, "train_and_eval", str(tmp_path), experiment="x")

    assert result.logs["plus"]["validation_loss"] < result.logs["minus"]["validation_loss"]


def test_tasks_with_different_models_need_a_class_of_their_own(sign_config):
    config = configs.MultiTaskConfig(
        task_routines=(
            configs.TaskRoutine(task_name="a", task_config=sign_config()),
            configs.TaskRoutine(task_name="b", task_config=sign_config(model={"width": 3})),
        )
    )

    with pytest.raises(errors.ConfigError, match="describe different models"):
        multitask.MultiTask.from_config(config).build_multitask_model()


@pytest.mark.long("Further cases of a test of which some run every time", but=["interleaving"])
@pytest.mark.slow
@pytest.mark.parametrize("trainer_type", ["joint", "interleaving"])
def test_times_and_norms_are_logged_as_for_one_task(tmp_path, experiment, trainer_type):
    params = experiment(trainer_type, norm_summaries=True)
    params.override({"trainer": {"train_steps": 5}})
    params.lock()

    train_lib.train_from_config(params, "train", str(tmp_path), experiment="test/signs")

    logs = json.loads((tmp_path / "training.jsonl").read_text())["metrics"]
    assert logs["step_ms"] == pytest.approx(logs["input_wait_ms"] + logs["compute_ms"])
    assert logs["input_wait_ms"] > 0
    assert logs["host_memory_gb"] > 0.1
    assert logs["gradient_norm"] > 0
    assert logs["update_norm"] > 0


@pytest.mark.slow
def test_actions_of_an_evaluation_of_several_tasks_come_from_factories(tmp_path):
    strategy, calls = tf.distribute.get_strategy(), []
    routines = tuple(
        configs.TaskRoutine(task_name=name, task_config=config_cls(), eval_steps=2)
        for name, config_cls in (("foo", test_utils.FooConfig), ("bar", test_utils.BarConfig))
    )
    params = configs.MultiEvalExperimentConfig(task=test_utils.FooConfig(), eval_tasks=routines)
    optimizer = {"optimizer": {"type": "sgd"}, "learning_rate": {"type": "constant"}}
    params.trainer.override(
        {"train_steps": 2, "validation_steps": 1, "optimizer_config": optimizer}
    )
    for field in ("steps_per_loop", "summary_interval", "checkpoint_interval"):
        params.trainer.override({field: 2, "validation_interval": 2})

    _, logs = multitask_train_lib.run_experiment_with_multitask_eval(
        distribution_strategy=strategy,
        train_task=task_factory.get_task(params.task),
        eval_tasks=[task_factory.get_task(one.task_config, name=one.name) for one in routines],
        mode="train_and_eval",
        params=params,
        model_dir=str(tmp_path),
        run_post_eval=True,
        train_actions_factory=lambda params, trainer, model_dir, manager: [
            lambda output: calls.append((trainer.global_step.numpy(), manager.directory))
        ],
        eval_actions_factory=lambda params, evaluator, model_dir: [
            lambda output: calls.append(sorted({"foo", "bar"} & set(output)))
        ],
    )

    assert calls[0] == (2, str(tmp_path))
    assert calls[1] == ["bar", "foo"]
    assert {"foo", "bar"} <= set(logs)


@pytest.mark.long("Further cases of a test of which some run every time", but=["joint"])
@pytest.mark.slow
@pytest.mark.parametrize("trainer_type", ["interleaving", "joint"])
def test_the_tasks_measure_their_own_batches_whatever_is_evaluated_between(
    tmp_path, experiment, two_tasks, two_heads, trainer_type
):
    def build(directory):
        model = two_heads(dropout_rate=0.0)
        for part in model.sub_tasks.values():
            part.compile(metrics=["mae"])
        runner = multitask_runner.MultiTaskRunner(
            tf.distribute.get_strategy(),
            two_tasks(),
            "train_and_eval",
            experiment(trainer_type),
            str(tmp_path / directory),
            model=model,
        )
        return runner.trainer, runner.evaluator

    def check(trainer, num_steps):
        logs = trainer.train(tf.constant(num_steps))
        for name in ("plus", "minus"):
            own = float(logs[name]["absolute_error"])
            assert float(logs[name]["mae"]) == pytest.approx(own, rel=1e-6)

    trainer, evaluator = build("first")
    evaluator.evaluate(tf.constant(2))
    check(trainer, 4)
    evaluator.evaluate(tf.constant(2))
    trainer.train_loop_begin()
    for _ in range(4):
        trainer.train_step(trainer.ensure_train_iterator())
    trainer.loop_position.assign(4)
    path = trainer.checkpoint.save(str(tmp_path / "ckpt"))

    for one, its_evaluator in ((trainer, evaluator), build("second")):
        one.checkpoint.restore(path)
        its_evaluator.evaluate_one_batch()
        check(one, 4)
