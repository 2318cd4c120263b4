import functools
import json
import logging
import os
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import checkpoints, memory_checkpoints
from quintain.core import base_trainer, task_factory, trainer_factory
from quintain.distribute import distribution
from quintain.run import run_options, train_lib


def run(params, mode, model_dir, **kwargs):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=str(model_dir))
    return train_lib.run_experiment(strategy, task, mode, params, str(model_dir), **kwargs)


def read_evaluations(model_dir):
    with open(os.path.join(model_dir, "evaluations.jsonl")) as file:
        return [json.loads(line) for line in file]


def read_weights(model_dir, step, name="ckpt"):
    reader = tf.train.load_checkpoint(os.path.join(model_dir, f"{name}-{step}"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE")
    }


class Collector(orbit.Reporter):
    def __init__(self):
        self.messages, self.loops, self.evaluations = [], [], []

    def on_message(self, text):
        self.messages.append(text)

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        self.loops.append((step, num_steps, dict(output)))

    def on_eval_end(self, step, output, secs):
        self.evaluations.append((step, dict(output)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A directory with a finished run; tests that change it take a copy."""
    return tmp_path_factory.mktemp("trained")


@pytest.fixture
def trained_dir(trained, tmp_path, line_params):
    if not list(trained.iterdir()):
        run(line_params(), "train_and_eval", trained)
    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    return copy


@pytest.mark.slow
def test_train_and_eval_learns_and_returns_the_last_evaluation(tmp_path, line_params):
    reporter = Collector()

    model, logs = run(line_params(), "train_and_eval", tmp_path, reporter=reporter)

    assert isinstance(model, keras.Model)
    assert [step for step, _ in reporter.evaluations] == [20, 40]
    assert logs["validation_loss"] == reporter.evaluations[-1][1]["validation_loss"]
    assert logs["validation_loss"] < reporter.evaluations[0][1]["validation_loss"]
    assert [entry["step"] for entry in read_evaluations(tmp_path)] == [20, 40]
    assert set(reporter.loops[0][2]) >= {
        "training_loss",
        "absolute_error",
        "learning_rate",
        "examples_per_second",
    }
    assert list((tmp_path / "train").glob("events*"))
    assert list((tmp_path / "validation").glob("events*"))


@pytest.mark.slow
def test_evaluation_covers_the_tail_of_the_data(trained_dir, line_params):
    params = line_params()
    task = task_factory.get_task(params.task)
    num_examples = sum(len(labels) for _, labels in task.build_inputs(params.task.validation_data))

    assert num_examples == params.task.num_examples - 3


def test_validation_loss_is_the_mean_over_the_batches(trained_dir, line_params):
    params = line_params()
    model, logs = run(params, "eval", trained_dir)

    task = task_factory.get_task(params.task)
    losses = [
        task.build_losses(labels, model(features, training=False))
        for features, labels in task.build_inputs(params.task.validation_data)
    ]
    assert logs["validation_loss"] == pytest.approx(float(np.mean(losses)), rel=1e-6)


def test_eval_mode_returns_the_metrics_of_the_newest_checkpoint(trained_dir, line_params):
    _, logs = run(line_params(), "eval", trained_dir)

    recorded = read_evaluations(trained_dir)[-1]["metrics"]
    assert logs["validation_loss"] == pytest.approx(recorded["validation_loss"], rel=1e-7)


def test_endless_validation_data_are_refused_before_the_first_step(
    tmp_path, line_params, monkeypatch
):
    params = line_params()
    task_class = type(task_factory.get_task(params.task))
    build = task_class.build_inputs
    monkeypatch.setattr(task_class, "build_inputs", lambda *args: build(*args).repeat())

    with pytest.raises(errors.ConfigError, match=r"task\.validation_data: the data never end"):
        run(params, "train_and_eval", tmp_path)
    assert not list(tmp_path.glob("ckpt*"))


def test_eval_without_a_checkpoint_is_an_error(tmp_path, line_params):
    with pytest.raises(errors.CheckpointError, match="holds no checkpoint"):
        run(line_params(), "eval", tmp_path)


@pytest.mark.parametrize("mode", ["continuous_train_and_eval", "trian"])
def test_unknown_and_foreign_modes_fail_before_a_model_is_built(tmp_path, line_params, mode):
    no_task = None
    strategy = tf.distribute.get_strategy()

    with pytest.raises(errors.ConfigError, match="mode: got"):
        train_lib.run_experiment(strategy, no_task, mode, line_params(), str(tmp_path))


def test_a_finished_run_says_so_and_returns_its_metrics(trained_dir, line_params):
    reporter = Collector()

    _, logs = run(line_params(), "train_and_eval", trained_dir, reporter=reporter)

    assert "This run is finished" in reporter.messages[0]
    assert reporter.loops == []
    assert logs == read_evaluations(trained_dir)[-1]["metrics"]


def test_a_finished_run_evaluates_on_request(trained_dir, line_params):
    reporter = Collector()

    _, logs = run(
        line_params(), "train_and_eval", trained_dir, reporter=reporter, run_post_eval=True
    )

    assert [step for step, _ in reporter.evaluations] == [40]
    assert "validation_loss" in logs


def test_train_steps_of_zero_is_an_error(tmp_path, line_params):
    with pytest.raises(errors.ConfigError, match=r"trainer\.train_steps: got 0"):
        run(line_params({"trainer": {"train_steps": 0}}), "train", tmp_path)


@pytest.mark.slow
def test_a_finite_dataset_ends_training_with_checkpoint_and_evaluation(tmp_path, line_params):
    reporter = Collector()
    params = line_params(
        {"task": {"is_finite": True}, "trainer": {"steps_per_loop": 3, "summary_interval": 3}}
    )

    _, logs = run(params, "train_and_eval", tmp_path, reporter=reporter)

    assert os.path.basename(checkpoints.list_checkpoints(str(tmp_path))[-1]) == "ckpt-8"
    assert [step for step, _ in reporter.evaluations] == [8]
    assert "validation_loss" in logs


@pytest.mark.long("Further modes of a run; the tests beside it show the usual ones")
@pytest.mark.slow
def test_train_and_post_eval_evaluates_once(tmp_path, line_params):
    reporter = Collector()

    _, logs = run(line_params(), "train_and_post_eval", tmp_path, reporter=reporter)

    assert [step for step, _ in reporter.evaluations] == [40]
    assert "validation_loss" in logs


def test_continuous_eval_evaluates_the_newest_checkpoint_and_ends_with_the_run(
    trained_dir, line_params
):
    _, logs = run(
        line_params({"trainer": {"continuous_eval_timeout": 1}}), "continuous_eval", trained_dir
    )

    assert "validation_loss" in logs


def test_continuous_eval_evaluates_every_checkpoint_in_order_and_the_last(trained_dir, line_params):
    reporter = Collector()
    params = line_params({"trainer": {"continuous_eval_timeout": 1}})

    _, logs = run(params, "continuous_eval", trained_dir, reporter=reporter)

    assert [step for step, _ in reporter.evaluations] == [10, 20, 30, 40]
    recorded = read_evaluations(trained_dir)
    assert [entry["step"] for entry in recorded] == [10, 20, 30, 40]
    assert recorded[-1]["metrics"]["validation_loss"] == pytest.approx(logs["validation_loss"])


def test_continuous_eval_of_a_run_that_does_not_go_on_ends_at_the_time_out(
    trained_dir, line_params
):
    params = line_params({"trainer": {"continuous_eval_timeout": 0, "train_steps": 1000}})

    _, logs = run(params, "continuous_eval", trained_dir)

    assert "validation_loss" in logs


@pytest.mark.slow
def test_train_and_validate_evaluates_every_checkpoint(tmp_path, line_params):
    reporter = Collector()
    params = line_params({"trainer": {"checkpoint_interval": 15, "validation_interval": 7}})

    run(params, "train_and_validate", tmp_path, reporter=reporter)

    steps = [step for step, _ in reporter.evaluations]
    assert steps == [15, 30, 40]
    names = [os.path.basename(path) for path in checkpoints.list_checkpoints(str(tmp_path))]
    assert names == [f"ckpt-{step}" for step in steps]


@pytest.mark.long("Further cases of a test of which some run every time", but=["float16"])
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_precision_is_set_by_config_alone_and_put_back(tmp_path, line_params, dtype):
    params = line_params(
        {"runtime": {"mixed_precision_dtype": dtype}, "trainer": {"train_steps": 5}}
    )

    model, _ = run(params, "train", tmp_path)

    assert model.layers[0].compute_dtype == dtype
    assert keras.config.dtype_policy().name == "float32"


def test_a_run_without_model_dir_keeps_nothing(line_params, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    strategy = tf.distribute.get_strategy()
    params = line_params({"trainer": {"train_steps": 5}})

    train_lib.run_experiment(strategy, task_factory.get_task(params.task), "train", params, None)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_runs_of_the_same_config_are_identical(trained_dir, tmp_path, line_params):
    run(line_params(), "train_and_eval", tmp_path / "again")

    assert read_evaluations(tmp_path / "again") == read_evaluations(trained_dir)
    first, second = read_weights(trained_dir, 40), read_weights(tmp_path / "again", 40)
    assert all(np.array_equal(first[name], second[name]) for name in first)


class StopAt:
    """Train action that asks the run to stop."""

    def __init__(self, interruption, after_loops):
        self.interruption, self.loops_left = interruption, after_loops

    def __call__(self, output):
        self.loops_left -= 1
        if self.loops_left == 0:
            self.interruption.request("test")


@pytest.mark.long("Further cases of a test of which some run every time", but=["3"])
@pytest.mark.slow
@pytest.mark.parametrize("after_loops", [1, 3, 4, 7])
def test_an_interrupted_and_resumed_run_ends_the_same_to_the_bit(
    trained_dir, tmp_path, line_params, after_loops
):
    model_dir = tmp_path / "interrupted"
    with orbit.Interruption() as interruption, pytest.raises(orbit.Interrupted):
        run(
            line_params(),
            "train_and_eval",
            model_dir,
            interruption=interruption,
            train_actions=[StopAt(interruption, after_loops)],
        )
    run(line_params(), "train_and_eval", model_dir)

    assert read_evaluations(model_dir) == read_evaluations(trained_dir)
    first, second = read_weights(trained_dir, 40), read_weights(model_dir, 40)
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_loss_that_is_not_finite_stops_training_before_the_checkpoint(tmp_path, line_params):
    params = line_params()
    params.trainer.optimizer_config.learning_rate.constant.learning_rate = 1e30

    with pytest.raises(errors.TrainingDivergedError, match="training loss became"):
        run(params, "train", tmp_path)

    assert checkpoints.list_checkpoints(str(tmp_path)) == []


def best_checkpoint_params(line_params, **changes):
    return line_params(
        {
            "trainer": {
                "best_checkpoint_export_subdir": "best",
                "best_checkpoint_eval_metric": "validation_loss",
                "best_checkpoint_metric_comp": "lower",
                **changes,
            }
        }
    )


@pytest.mark.slow
def test_the_best_checkpoint_is_kept_with_its_step_and_logs(tmp_path, line_params):
    _, logs = run(best_checkpoint_params(line_params), "train_and_eval", tmp_path)

    info = json.loads((tmp_path / "best" / "info.json").read_text())
    assert info["best_ckpt_global_step"] == 40
    assert os.path.samefile(tmp_path / "best" / "best_ckpt-40.index", tmp_path / "ckpt-40.index")
    assert logs["best_validation_loss"] == info["validation_loss"]


class ZeroTrainer(base_trainer.Trainer):
    """Evaluates, and so exports, a model whose weights are 0."""

    def eval_begin(self):
        self.kept = [weight.numpy() for weight in self.model.trainable_variables]
        self.exchange([0.0 * weight for weight in self.kept])
        super().eval_begin()

    def eval_end(self, aggregated_logs=None):
        logs = super().eval_end(aggregated_logs)
        self.exchange(self.kept)
        return logs

    def exchange(self, values):
        for weight, value in zip(self.model.trainable_variables, values, strict=True):
            weight.assign(value)


@pytest.mark.slow
def test_the_best_checkpoint_of_a_users_trainer_is_what_it_evaluated(
    tmp_path, line_params, monkeypatch
):
    create_trainer = functools.partial(trainer_factory.create_trainer, trainer_cls=ZeroTrainer)
    monkeypatch.setattr(trainer_factory, "create_trainer", create_trainer)
    run(best_checkpoint_params(line_params, train_steps=10), "train_and_eval", tmp_path)

    newest, best = read_weights(tmp_path, 10), read_weights(tmp_path / "best", 10, "best_ckpt")
    weights = [name for name in best if name.startswith("optimizer/_trainable_variables/")]
    assert len(weights) == 4
    assert all(newest[name].any() and not best[name].any() for name in weights)


def test_a_misspelt_best_metric_is_an_error_before_the_first_step(tmp_path, line_params):
    params = best_checkpoint_params(line_params, best_checkpoint_eval_metric="validation_los")
    reporter = Collector()

    with pytest.raises(errors.ConfigError, match="gives: absolute_error, validation_loss"):
        run(params, "train_and_eval", tmp_path, reporter=reporter)

    assert reporter.loops == []


def test_training_alone_needs_no_evaluation_for_the_best_checkpoint(tmp_path, line_params):
    params = best_checkpoint_params(line_params, train_steps=4)

    assert run(params, "train", tmp_path)[1] == {}
    assert (
        int(
            tf.train.load_variable(
                str(tmp_path / "ckpt-4"), "global_step/.ATTRIBUTES/VARIABLE_VALUE"
            )
        )
        == 4
    )


def test_a_checkpoint_of_other_settings_is_refused(trained_dir, line_params):
    params = line_params()
    params.trainer.optimizer_config.optimizer.type = "sgd"

    with pytest.raises(errors.CheckpointError, match="does not fit"):
        run(params, "train_and_eval", trained_dir)


@pytest.mark.slow
def test_init_checkpoint_starts_a_new_run_and_not_a_resumed_one(trained_dir, tmp_path, line_params):
    params = line_params(
        {"task": {"init_checkpoint": str(trained_dir)}, "trainer": {"train_steps": 5}}
    )

    reporter = Collector()
    run(params, "train_and_eval", tmp_path / "new", reporter=reporter)

    assert reporter.evaluations[0][0] == 5
    former = read_evaluations(trained_dir)[-1]["metrics"]["validation_loss"]
    assert reporter.evaluations[0][1]["validation_loss"] < former * 1.5


def test_an_init_checkpoint_that_is_not_there_is_an_error(tmp_path, line_params):
    params = line_params({"task": {"init_checkpoint": str(tmp_path / "missing")}})

    with pytest.raises(errors.CheckpointError, match=r"task\.init_checkpoint"):
        run(params, "train", tmp_path / "run")


@pytest.mark.slow
def test_a_damaged_newest_checkpoint_falls_back_and_ends_the_same(
    trained_dir, tmp_path, line_params, caplog
):
    shutil.copytree(trained_dir, tmp_path / "damaged")
    file = tmp_path / "damaged" / "ckpt-40.data-00000-of-00001"
    file.write_bytes(file.read_bytes()[:100])

    with caplog.at_level(logging.WARNING):
        run(line_params(), "train_and_eval", tmp_path / "damaged")

    assert "ckpt-40 is damaged" in caplog.text
    assert read_evaluations(tmp_path / "damaged") == read_evaluations(trained_dir)


@pytest.fixture(scope="module")
def exact_logs():
    """Final metrics of a run without dropout, whose masks depend on how a step is compiled."""
    return {}


@pytest.mark.long("Further cases of a test of which some run every time", but=["runtime0"])
@pytest.mark.slow
@pytest.mark.parametrize("runtime", [{"run_eagerly": True}, {"enable_xla": True}])
def test_eager_and_compiled_runs_learn_the_same(exact_logs, tmp_path, line_params, runtime):
    exact = {"task": {"dropout_rate": 0.0}}
    if not exact_logs:
        exact_logs.update(run(line_params(exact), "train_and_eval", tmp_path / "graph")[1])

    _, logs = run(line_params({**exact, "runtime": runtime}), "train_and_eval", tmp_path / "other")

    assert logs["validation_loss"] == pytest.approx(exact_logs["validation_loss"], rel=1e-4)


@pytest.mark.long("Further modes of a run; the tests beside it show the usual ones")
@pytest.mark.slow
def test_mirrored_on_one_cpu_learns_the_same_as_one_device(trained_dir, tmp_path, line_params):
    params = line_params({"runtime": {"distribution_strategy": "mirrored"}})

    run(params, "train_and_eval", tmp_path / "mirrored")

    assert read_evaluations(tmp_path / "mirrored") == read_evaluations(trained_dir)


def test_a_signal_while_the_best_metric_is_checked_stops_the_run(tmp_path, line_params):
    params = best_checkpoint_params(line_params)

    with orbit.Interruption() as interruption:
        interruption.request("test")
        with pytest.raises(orbit.Interrupted):
            run(params, "train_and_eval", tmp_path, interruption=interruption)


@pytest.mark.long("Further modes of a run; the tests beside it show the usual ones")
@pytest.mark.slow
def test_a_named_task_goes_by_its_name_in_the_log(tmp_path, line_params, caplog):
    params = line_params({"task": {"name": "sums"}, "trainer": {"train_steps": 5}})

    with caplog.at_level(logging.INFO, "quintain"):
        run(params, "train", tmp_path)

    assert "Task 'sums' starts in mode 'train'." in caplog.text
    with pytest.raises(errors.ConfigError, match=r"name: got 'a b', expected a Python identifier"):
        line_params({"task": {"name": "a b"}}).validate()


@pytest.mark.slow
def test_a_standby_goes_on_from_the_newest_checkpoint_to_the_same_bits(tmp_path, line_params):
    def train(name, steps, **options):
        return train_lib.train_from_config(
            line_params({"trainer": {"train_steps": steps}}),
            "train",
            str(tmp_path / name),
            experiment="test/line",
            options=run_options.RunOptions(**options),
            allow_config_change=True,
        )

    train("undisturbed", 20)
    # The first process has begun, which fixes the settings that a standby is built from.
    train("killed", 5)
    result = train("killed", 20, stand_by=lambda: train("killed", 10))

    assert result.step == 20
    lines = (tmp_path / "killed" / "training.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [5, 10, 15, 20]
    expected = read_weights(tmp_path / "undisturbed", 20)
    for name, weight in read_weights(tmp_path / "killed", 20).items():
        np.testing.assert_array_equal(weight, expected[name], err_msg=name)


@pytest.mark.slow
def test_a_standby_goes_on_from_memory_and_saves_where_it_would_have(
    tmp_path, line_params, caplog, monkeypatch
):
    def train(name, steps, **options):
        trainer = {"train_steps": steps, "checkpoint_interval": 10, "max_to_keep": 0}
        return train_lib.train_from_config(
            line_params({"trainer": trainer}),
            "train",
            str(tmp_path / name),
            experiment="test/line",
            options=run_options.RunOptions(**options),
            allow_config_change=True,
        )

    def be_killed():
        train("killed", 15, memory=memory)
        checkpoints.delete_checkpoint(str(tmp_path / "killed" / "ckpt-15"))

    monkeypatch.setattr(memory_checkpoints, "EXPECTED_SECS", 0.0)  # After every loop.
    memory = memory_checkpoints.SharedMemory()
    train("undisturbed", 30)
    with caplog.at_level(logging.INFO, "quintain"):
        train("killed", 30, memory=memory, stand_by=be_killed)

    assert "Going on from step 15, which was kept in memory." in caplog.text
    names = [
        [os.path.basename(path) for path in checkpoints.list_checkpoints(str(tmp_path / name))]
        for name in ("undisturbed", "killed")
    ]
    assert names[0] == names[1] == ["ckpt-10", "ckpt-20", "ckpt-30"]
    expected = read_weights(tmp_path / "undisturbed", 30)
    for name, weight in read_weights(tmp_path / "killed", 30).items():
        np.testing.assert_array_equal(weight, expected[name], err_msg=name)
